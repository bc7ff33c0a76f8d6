"""Declarations of when subscriptions are told: read, checked, and written again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from twigcast.errors import WindowError

AT_LEAST_MAX: Final = 1_000
"""How many messages a window may ask for."""

PERIOD_SECONDS_MAX: Final = 366 * 86_400.0
"""How long a period may be."""

LATENESS_RATIO_MAX: Final = 10
"""How many times ``within`` the lateness may be where single messages are remembered that long."""

KEEP_SECONDS: Final = 30 * 86_400.0
"""How long the last value of a key is remembered, unless the subscription says otherwise."""

EXPRESSION_CHARACTERS_MAX: Final = 10_000


class WindowKind(StrEnum):
    """The kinds of windows, under the words that declare them."""

    AT_LEAST = "at_least"
    """It is told when so many messages of a key have come within a time."""
    SEQUENCE = "sequence"
    """It is told when a message meets a second condition within a time after one that matches."""
    ABSENCE = "absence"
    """It is told when no message of a key has come for a time."""
    CHANGED = "changed"
    """It is told when a value is another one than in the last message of the key."""
    THROTTLE = "throttle"
    """It is told of one message of a key in a time."""
    DIGEST = "digest"
    """It gets all messages of a period in one document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A declaration of when a subscription is told. Times are in seconds."""

    kind: WindowKind
    count: int = 0
    """How many messages ``at_least`` asks for."""
    seconds: float = 0.0
    """The time of ``within``, ``absence``, ``throttle`` or ``digest``; of ``changed``, how long a value is kept."""
    by: str = ""
    """An expression: messages for which it has the same value are looked at together. Without it, all are."""
    value: str = ""
    """The expression of ``changed``."""
    second: str = ""
    """The condition that the second message of a ``sequence`` meets."""
    at: str = ""
    """An expression: when a message says that it happened. Without it, a message happens when it comes."""
    lateness: float = 0.0
    """How long after it happened a message may come and still count."""

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions that it has, by the word that holds them; the one of ``sequence`` is a condition."""
        words = {"by": self.by, "at": self.at, "changed": self.value, "sequence": self.second}
        return {word: text for word, text in words.items() if text}

    def as_mapping(self) -> dict[str, object]:
        """Returns what :func:`read_window` makes the same window of."""
        words: dict[str, object] = {self.kind.value: _FIRST[self.kind](self)}
        if self.kind in _WITHIN:
            words["within"] = period_text(self.seconds)
        if self.kind is WindowKind.CHANGED and self.seconds != KEEP_SECONDS:
            words["keep"] = period_text(self.seconds)
        words |= {word: text for word, text in (("by", self.by), ("at", self.at)) if text}
        if self.at:
            words["lateness"] = period_text(self.lateness)
        return words


_WITHIN: Final = (WindowKind.AT_LEAST, WindowKind.SEQUENCE)
_FIRST: Final[Mapping[WindowKind, Callable[[Window], object]]] = {
    WindowKind.AT_LEAST: lambda window: window.count,
    WindowKind.SEQUENCE: lambda window: window.second,
    WindowKind.ABSENCE: lambda window: period_text(window.seconds),
    WindowKind.CHANGED: lambda window: window.value,
    WindowKind.THROTTLE: lambda window: period_text(window.seconds),
    WindowKind.DIGEST: lambda window: period_text(window.seconds),
}
"""What stands behind the word of a kind."""

_MORE: Final = {
    WindowKind.AT_LEAST: ("within", "by", "at", "lateness"),
    WindowKind.SEQUENCE: ("within", "by", "at", "lateness"),
    WindowKind.ABSENCE: ("by", "at", "lateness"),
    WindowKind.CHANGED: ("by", "at", "lateness", "keep"),
    WindowKind.THROTTLE: ("by", "at", "lateness"),
    WindowKind.DIGEST: ("by", "at", "lateness"),
}
"""The words that may stand beside that of a kind."""

_UNITS: Final = {
    1.0: ("s", "sec", "second", "seconds"),
    60.0: ("min", "minute", "minutes"),
    3_600.0: ("h", "hour", "hours"),
    86_400.0: ("d", "day", "days"),
    604_800.0: ("week", "weeks"),
}
_SECONDS: Final = {name: seconds for seconds, names in _UNITS.items() for name in names}
_PERIOD: Final = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]+)\s*", re.ASCII)


def read_window(when: Mapping[str, object] | Window) -> Window:
    """Returns what a subscription says of when it is told.

    Raises:
        WindowError: A word of it cannot be used. Its expressions are read by the engine:
            see :class:`~twigcast.windows.expressions.WindowExpressions`.
    """
    if isinstance(when, Window):
        return when
    if not isinstance(when, Mapping):
        raise WindowError("when", f"it must be a mapping such as {{'digest': '1 h'}}, not {type(when).__name__}")
    kinds = [kind for kind in WindowKind if kind.value in when]
    if len(kinds) != 1:
        found = " and ".join(kind.value for kind in kinds) or "none of them"
        raise WindowError("when", f"it needs one of {', '.join(WindowKind)}, and has {found}")
    kind = kinds[0]
    for word in when:
        if word != kind.value and word not in _MORE[kind]:
            raise WindowError(str(word), f"beside {kind} there may be {', '.join(_MORE[kind])}, and nothing else")
    window = Window(
        kind=kind,
        count=_count(when[kind]) if kind is WindowKind.AT_LEAST else 0,
        seconds=_seconds(when, kind),
        by=_expression(when, "by"),
        value=_expression(when, "changed"),
        second=_expression(when, "sequence"),
        at=_expression(when, "at"),
        lateness=read_period(when["lateness"], "lateness", least=0.0) if "lateness" in when else 0.0,
    )
    _check_lateness(window, when)
    return window


def window_text(window: Window) -> str:
    """Returns a window as one text, from which :func:`window_of_text` makes it again."""
    return json.dumps(window.as_mapping(), ensure_ascii=False)


def window_of_text(text: str) -> Window:
    """Returns the window that a text in JSON declares.

    Raises:
        WindowError: It declares none.
    """
    try:
        when: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WindowError("when", f'it must be a JSON object such as {{"digest": "1 h"}}: {error}') from None
    return read_window(when)


def period_text(seconds: float) -> str:
    """Returns a period as people write it, in the largest unit of which it is a whole number."""
    for length, names in reversed(_UNITS.items()):
        if names[0] != "week" and seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f} {names[0]}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + " s"


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= AT_LEAST_MAX:
        raise WindowError("at_least", f"it must be a whole number from 2 to {AT_LEAST_MAX:,}, not {value!r}")
    return value


def _seconds(when: Mapping[str, object], kind: WindowKind) -> float:
    """Returns the time that a window of a kind needs."""
    if kind in _WITHIN:
        if "within" not in when:
            raise WindowError("within", f"it is missing: {kind} needs a time, such as '10 min'")
        return read_period(when["within"], "within")
    if kind is WindowKind.CHANGED:
        return read_period(when["keep"], "keep") if "keep" in when else KEEP_SECONDS
    return read_period(when[kind], kind.value)


def read_period(value: object, word: str, least: float = 0.001) -> float:
    """Returns a time that is written as ``10 min`` or as a number of seconds."""
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (found := _PERIOD.fullmatch(value)) and found[2] in _SECONDS:
        seconds = float(found[1]) * _SECONDS[found[2]]
    if seconds is None or not math.isfinite(seconds):
        raise WindowError(word, f"it must be a time such as '90 s', '10 min', '1 h' or '2 d', not {value!r}")
    if not least <= seconds <= PERIOD_SECONDS_MAX:
        raise WindowError(word, f"it must be from {least:g} s to {PERIOD_SECONDS_MAX / 86_400:.0f} d, not {value!r}")
    return seconds


def _expression(when: Mapping[str, object], word: str) -> str:
    if word not in when:
        return ""
    text = when[word]
    if not isinstance(text, str) or not text.strip():
        raise WindowError(word, f"it must be an expression of XPath, not {text!r}")
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise WindowError(word, f"it has {len(text):,} characters; at most {EXPRESSION_CHARACTERS_MAX:,} are allowed")
    return text


def _check_lateness(window: Window, when: Mapping[str, object]) -> None:
    if window.at and "lateness" not in when:
        raise WindowError("lateness", "it is missing: with at, say how late a message may come, such as '5 min'")
    if not window.at and "lateness" in when:
        raise WindowError("lateness", "it needs at: without that, a message happens when it comes, and is never late")
    if window.kind in _WITHIN and window.lateness > LATENESS_RATIO_MAX * window.seconds:
        most = period_text(LATENESS_RATIO_MAX * window.seconds)
        raise WindowError("lateness", f"it may be at most {LATENESS_RATIO_MAX} times within, which is {most}")
