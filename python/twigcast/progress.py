"""Shows how far long work is: a bar in a notebook, a moving line on a terminal, nothing in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final, Protocol, TextIO, TypeVar

_SECONDS: Final = 0.2
"""Time between two changes of what is shown."""

_BAR_WIDTH: Final = 24

T = TypeVar("T")


class ProgressDisplay(Protocol):
    """A place where the progress of one piece of work is shown, each state in place of the one before."""

    def show(self, share: float | None, text: str) -> None:
        """Shows a state.

        Args:
            share: How much is done, from 0 to 1; ``None`` if nobody knows how much there is.
            text: What is said beside the bar.
        """

    def finish(self) -> None:
        """Ends the display."""


class TerminalDisplay:
    """A display that is one line of a terminal, which goes away in the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0

    def show(self, share: float | None, text: str) -> None:
        """Writes the line again."""
        line = text if share is None else f"{bar(share)}  {text}"
        print("\r" + line.ljust(self._shown), end="", file=self._stream, flush=True)
        self._shown = len(line)

    def finish(self) -> None:
        """Removes the line."""
        if self._shown:
            print("\r" + " " * self._shown + "\r", end="", file=self._stream, flush=True)
            self._shown = 0


class NotebookDisplay:
    """A display below the cell of a notebook, which stays as it was in the end. It needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, share: float | None, text: str) -> None:
        """Shows the bar, or moves it."""
        from html import escape

        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        value = "" if share is None else f' value="{share:.4f}"'
        content = HTML(f'<progress max="1"{value} style="width:20em"></progress> {escape(text)}')  # type: ignore[no-untyped-call,unused-ignore]
        if self._handle is None:
            self._handle = display(content, display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
        else:
            self._handle.update(content)

    def finish(self) -> None:
        """Leaves the bar as it is, and begins another one next time."""
        self._handle = None


def is_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def display_here(stream: TextIO | None = None) -> ProgressDisplay | None:
    """Returns a display for a notebook or a terminal; ``None`` if the output goes elsewhere, such as to a log.

    Args:
        stream: The terminal, if it is one; by default, standard error.
    """
    if is_notebook():
        return NotebookDisplay()
    stream = sys.stderr if stream is None else stream
    return TerminalDisplay(stream) if stream.isatty() else None


def bar(share: float) -> str:
    """Returns a bar of characters, with the share in per cent."""
    marks = "#" * int(share * _BAR_WIDTH)
    return f"[{marks:<{_BAR_WIDTH}}] {share:4.0%}"


def track(
    items: Iterable[T],
    unit: str,
    *,
    total: int | None = None,
    display: ProgressDisplay | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Yields items and shows how many have passed: for messages in a loop, or subscriptions to add.

    Args:
        items: The items to work on.
        unit: The word for the items, such as ``messages``.
        total: How many there are; by default their length, if they have one.
        display: Where it is shown; by default in the notebook or on the terminal, if there is one.
        clock: Returns the time in seconds.
    """
    display = display or display_here()
    if display is None:
        yield from items
        return
    if total is None and isinstance(items, Sized):
        total = len(items)
    started = shown_at = clock()
    done = 0
    try:
        for done, item in enumerate(items, start=1):
            yield item
            now = clock()
            if now - shown_at >= _SECONDS:
                shown_at = now
                _show(display, done, total, unit, now - started)
        _show(display, done, done, unit, clock() - started)
    finally:
        display.finish()


def _show(display: ProgressDisplay, done: int, total: int | None, unit: str, seconds: float) -> None:
    rate = f", {done / seconds:,.0f} a second" if seconds >= 1 and done else ""
    of_total = "" if total is None else f" of {total:,}"
    share = min(done / total, 1.0) if total else None
    display.show(share, f"{done:,}{of_total} {unit}{rate}")
