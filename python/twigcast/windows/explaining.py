"""Explanations of windows: what one holds, and why its subscriber is told of a message, or is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from twigcast.windows.declarations import Window, WindowKind, period_text
from twigcast.windows.documents import time_text
from twigcast.windows.states import Action, Handle, WindowEvent, WindowOutput, WindowState, step
from twigcast.windows.status import status_text

_IDS_MAX: Final = 10
"""Messages that are named."""

NOT_CONCERNED: Final = "the message does not concern the window, since the query does not match"


@dataclass(frozen=True, slots=True)
class WindowExplanation:
    """An explanation of what a window makes of a message."""

    when: Mapping[str, object]
    """The window, as it is declared."""
    key: str | None
    """The value of ``by``; ``None`` if it could not be decided."""
    holds: str | None
    """What is known for this value, in words: before the message, or now, if that is stored; ``None`` if nothing is."""
    delivers: bool | None
    """Whether its subscriber is told of the message; ``None`` of a stored one, where that was decided when it came."""
    reason: str
    """Why, in a sentence."""
    trouble: str | None = None
    """What could not be read of the message."""
    is_stored: bool = False
    """Whether the message has come before."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the explanation as plain values."""
        return {
            "when": dict(self.when),
            "key": self.key,
            "holds": self.holds,
            "delivers": self.delivers,
            "reason": self.reason,
            "trouble": self.trouble,
            "is_stored": self.is_stored,
        }


def explain_event(
    window: Window, key: str | None, state: WindowState | None, event: WindowEvent, trouble: str | None = None
) -> WindowExplanation:
    """Returns what a window makes of a message that comes now.

    Args:
        window: The window.
        key: The value of ``by``; ``None`` if it could not be decided.
        state: What is known for it.
        event: What the message says to the window.
        trouble: What could not be read of the message.
    """
    holds = None if state is None else status_text(window, state)
    if key is None:
        return WindowExplanation(window.as_mapping(), None, None, False, trouble or "it could not be decided", trouble)
    if not event.is_first and not event.is_second:
        return WindowExplanation(window.as_mapping(), key, holds, False, NOT_CONCERNED, trouble)
    after = step(window, state, event)
    told = next((one for one in after.outputs if one.action is Action.DELIVER), None)
    if after.is_late:
        reason = _late(window, state, event)
    elif told is not None:
        reason = _told(told)
    else:
        reason = _REASONS[window.kind](window, state, after.state, event)
    return WindowExplanation(window.as_mapping(), key, holds, told is not None, reason, trouble)


def explain_stored_event(
    window: Window, key: str | None, state: WindowState | None, event: WindowEvent, trouble: str | None = None
) -> WindowExplanation:
    """Returns what a window knows of a message that came before: the arguments are those of :func:`explain_event`."""
    holds, when = None if state is None else status_text(window, state), window.as_mapping()
    if key is None:
        return WindowExplanation(when, None, None, None, trouble or "it could not be decided", trouble, is_stored=True)
    if not event.is_first and not event.is_second:
        return WindowExplanation(when, key, holds, False, NOT_CONCERNED, trouble, is_stored=True)
    return WindowExplanation(when, key, holds, None, _remembered(window, state, event), trouble, is_stored=True)


def _ids(handles: tuple[Handle, ...]) -> str:
    shown = ", ".join(str(one) for one in handles[:_IDS_MAX])
    return shown + (f" and {len(handles) - _IDS_MAX:,} more" if len(handles) > _IDS_MAX else "")


def _told(output: WindowOutput) -> str:
    if output.old is not None:
        return f"its subscriber is told of it: the value was {output.old[:200]!r}, and is {(output.new or '')[:200]!r}"
    if len(output.stands_for) > 1:
        return f"its subscriber is told of it: it stands for {_ids(output.stands_for)}"
    return "its subscriber is told of it"


def _late(window: Window, state: WindowState | None, event: WindowEvent) -> str:
    if state is not None and window.kind is WindowKind.CHANGED and event.at >= event.arrived - window.lateness:
        return f"it happened at {time_text(event.at)}, before the last message of its key, and does not count"
    allowed = f", and {period_text(window.lateness)} are allowed" if window.lateness else ""
    return f"it comes too late to count: it happened at {time_text(event.at)}{allowed}"


def _count_up(window: Window, _: WindowState | None, after: WindowState | None, event: WindowEvent) -> str:
    assert after is not None, "the message itself is remembered"
    near = [one for one in after.entries if abs(one.at - min(event.at, event.arrived)) < window.seconds]
    return f"it counts: with it, {len(near)} of {window.count} have come within {period_text(window.seconds)}"


def _half(window: Window, _: WindowState | None, after: WindowState | None, event: WindowEvent) -> str:
    within = period_text(window.seconds)
    if event.is_first:
        return f"it is a first message: the second one has to come less than {within} after it"
    waits = "; a first one may still come late" if after is not None and any(o.is_second for o in after.entries) else ""
    return f"it is a second message, and no first one came less than {within} before it{waits}"


def _sign_of_life(window: Window, before: WindowState | None, after: WindowState | None, event: WindowEvent) -> str:
    assert after is not None, "silence counts from a message on"
    if before == after:
        return f"it happened before {time_text(after.last)}, from which silence counts: that is told of at " + (
            time_text(after.due)
        )
    return f"it ends the silence: the next one is told of at {time_text(after.due)}, if nothing comes before"


def _same(window: Window, before: WindowState | None, _: WindowState | None, event: WindowEvent) -> str:
    if event.value is None:
        return "it says nothing of the value, and is passed over"
    if before is None:
        return f"its value {event.value[:200]!r} is the first of its key, which is no change"
    return f"the value is {event.value[:200]!r}, as before"


def _throttled(window: Window, before: WindowState | None, _: WindowState | None, event: WindowEvent) -> str:
    assert before is not None, "its subscriber was told of another message"
    end = time_text(before.last + window.seconds)
    return f"its subscriber was told of a message at {time_text(before.last)}, and is told of the next from {end} on"


def _collected(window: Window, _: WindowState | None, after: WindowState | None, event: WindowEvent) -> str:
    at = min(event.at, event.arrived) // window.seconds * window.seconds + window.seconds + window.lateness
    return f"it is kept for the digest that is sent at {time_text(at)}"


_REASONS: Final = {
    WindowKind.AT_LEAST: _count_up,
    WindowKind.SEQUENCE: _half,
    WindowKind.ABSENCE: _sign_of_life,
    WindowKind.CHANGED: _same,
    WindowKind.THROTTLE: _throttled,
    WindowKind.DIGEST: _collected,
}
"""Why the subscriber of a window is not told of a message, by the kind of the window."""


def _remembered(window: Window, state: WindowState | None, event: WindowEvent) -> str:
    """Returns what is known of a message that has come."""
    at = min(event.at, event.arrived)
    if state is not None:
        if any(one.handle == event.handle for one in state.entries):
            return "it counts, and its subscriber has not been told of it: what it waits for has not come"
        if state.handle == event.handle:
            return _LAST[window.kind]
        start = at // window.seconds * window.seconds if window.kind is WindowKind.DIGEST else None
        if any(one.bucket.start == start for one in state.buckets):
            return f"it is kept for the digest that is sent at {time_text(state.due)}"
    if window.kind is WindowKind.DIGEST:
        return "its digest has been sent, or it came too late for that"
    return (
        "nothing is known of it any more: its subscriber was told of it, or it was not needed, or did not come in time"
    )


_LAST: Final = {
    WindowKind.ABSENCE: "it is the last message of its key: silence counts from it on",
    WindowKind.CHANGED: "it is the last message of its key: the value of the next one is compared with its own",
    WindowKind.THROTTLE: "its subscriber was told of it, and of none that came since",
}
