"""Descriptions of states of windows, in words."""

from __future__ import annotations

from twigcast.windows.declarations import Window, WindowKind
from twigcast.windows.documents import time_text
from twigcast.windows.states import WindowState


def status_text(window: Window, state: WindowState) -> str:
    """Returns the state of one key of a window: ``2 of 3 since 2026-12-01T10:02:00Z``."""
    firsts = [entry for entry in state.entries if not entry.is_second]
    match window.kind:
        case WindowKind.AT_LEAST:
            return f"{len(firsts)} of {window.count} since {time_text(firsts[0].at)}"
        case WindowKind.SEQUENCE if firsts:
            return f"the first message came at {time_text(firsts[-1].at)}; waits for the second"
        case WindowKind.SEQUENCE:
            return f"the second message came at {time_text(state.entries[-1].at)}; the first may come late"
        case WindowKind.ABSENCE:
            what = "the subscription began" if state.handle is None else "the last message came"
            return f"{what} at {time_text(state.last)}; tells of silence at {time_text(state.due)}"
        case WindowKind.CHANGED:
            return f"the value is {state.value[:200]!r}, last seen at {time_text(state.last)}"
        case WindowKind.THROTTLE:
            end = time_text(state.last + window.seconds)
            return f"told at {time_text(state.last)}, {state.count:,} left out since; the next from {end} on"
        case WindowKind.DIGEST:
            count = sum(one.messages for one in state.buckets)
            return (
                f"{count:,} collected since {time_text(state.buckets[0].bucket.start)}; sent at {time_text(state.due)}"
            )
