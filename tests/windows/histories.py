"""Random histories of messages for windows, the same in library and broker."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.windows.model import Happening, ModelWindow

KEYS = ("a", "b", "")
QUERY = "/m[@first]"
"""What subscriptions match."""


@dataclass(frozen=True)
class History:
    """A window, and messages with the keys that they have."""

    window: ModelWindow
    has_key: bool
    has_time: bool
    events: tuple[tuple[str, Happening], ...]
    until: int

    @property
    def when(self) -> dict[str, object]:
        """The window as a subscription declares it."""
        window = self.window
        kinds: dict[str, dict[str, object]] = {
            "at_least": {"at_least": window.count, "within": window.length},
            "sequence": {"sequence": "/m[@second]", "within": f"{window.length} s"},
            "changed": {"changed": "string(/m/@value)", "keep": window.length},
        }
        declared = kinds.get(window.kind, {window.kind: window.length})
        if self.has_key:
            declared["by"] = "/m/@key"
        if self.has_time:
            declared |= {"at": "/m/@at", "lateness": window.lateness}
        return declared

    def of_key(self, key: str) -> list[Happening]:
        """Returns the events that count for a key: sequences look at more than what the query matches."""
        mine = [event for name, event in self.events if name == key or not self.has_key]
        return [event for event in mine if event.is_first or (event.is_second and self.window.kind == "sequence")]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that there are."""
        return KEYS if self.has_key else ("",)


def message(key: str, event: Happening, *, has_time: bool) -> str:
    """Returns an event as a message."""
    parts = [f'id="{event.name}"', f'key="{key}"', f'value="{event.value}"']
    parts += ['first="1"'] if event.is_first else []
    parts += ['second="1"'] if event.is_second else []
    if has_time:
        minutes, seconds = divmod(event.at, 60)
        hours, minutes = divmod(minutes, 60)
        parts.append(f'at="1970-01-01T{hours:02}:{minutes:02}:{seconds:02}Z"')
    return f"<m {' '.join(parts)}/>"


def history(seed: int, kind: str | None = None) -> History:
    """Returns a random history: short periods, so that much happens at their ends."""
    rng = random.Random(seed)
    kind = kind or rng.choice(["at_least", "sequence", "absence", "changed", "throttle", "digest"])
    has_time = rng.random() < 0.6
    length = rng.choice([1, 3, 10, 25])
    lateness = rng.choice([0, 2, 10]) if has_time else 0
    window = ModelWindow(kind, length, lateness, rng.choice([2, 3, 5]) if kind == "at_least" else 0)
    now, events = 100, []
    for number in range(rng.randrange(1, 40)):
        now += rng.choice([0, 0, 1, 1, 2, 3, 5, length, length + lateness])
        at = max(0, now - rng.choice([0, 0, 1, 2, 3, 9, 11, 12, -4])) if has_time else now
        is_first = kind != "sequence" or rng.random() < 0.6
        event = Happening(
            f"m{number}", now, at, rng.choice(["", "x", "x", "y"]), is_first and rng.random() < 0.9, rng.random() < 0.5
        )
        events.append((rng.choice(KEYS), event))
    return History(window, rng.random() < 0.7, has_time, tuple(events), now + 60)
