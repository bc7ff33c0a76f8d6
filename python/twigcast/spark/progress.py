"""Telling people how far a pipeline is."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

_BAR_WIDTH: Final = 24
_PLAIN_SECONDS: Final = 10.0
"""Where output is not a terminal, a line this often."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is."""

    tasks: int
    """Parts of the work."""

    tasks_done: int

    messages: int
    """Messages in the parts that are done."""


Listener = Callable[[Progress], None]


class ProgressReporter(Protocol):
    """Whoever wants to know what a pipeline is doing."""

    def say(self, text: str) -> None:
        """Something happened."""

    def progress(self, progress: Progress) -> None:
        """A job went on."""

    def finished(self) -> None:
        """The job that made progress is over."""


class SilentReporter:
    """Does not want to know."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def progress(self, progress: Progress) -> None:
        """Say nothing."""

    def finished(self) -> None:
        """Say nothing."""


class TerminalReporter:
    """Shows progress on standard error: a bar that moves on a terminal, now and then a line elsewhere.

    Args:
        stream: Where to show it instead.
        clock: Seconds.
        advice: Puts what errors advise into words that suit the reader.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        advice: Callable[[str], str] = str,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._advice = advice
        self._moves = self._stream.isatty()
        self._began: float | None = None
        self._line_at = 0.0
        self._shown = 0

    def say(self, text: str) -> None:
        """Show a line of its own."""
        self._erase()
        print(self._advice(text), file=self._stream, flush=True)

    def progress(self, progress: Progress) -> None:
        """Show how far the job is."""
        now = self._clock()
        if self._began is None:
            self._began = self._line_at = now
        line = progress_line(progress, now - self._began)
        if self._moves:
            print("\r" + line.ljust(self._shown), end="", file=self._stream, flush=True)
            self._shown = len(line)
        elif now - self._line_at >= _PLAIN_SECONDS:
            self._line_at = now
            print(line, file=self._stream, flush=True)

    def finished(self) -> None:
        """Take the bar away."""
        self._erase()
        self._began = None

    def _erase(self) -> None:
        if self._shown:
            print("\r" + " " * self._shown + "\r", end="", file=self._stream, flush=True)
            self._shown = 0


def progress_line(progress: Progress, seconds: float) -> str:
    """One line that says how far a job is."""
    share = progress.tasks_done / progress.tasks if progress.tasks else 0.0
    bar = "#" * int(share * _BAR_WIDTH)
    rate = f", {progress.messages / seconds:,.0f} a second" if seconds >= 1 and progress.messages else ""
    return f"[{bar:<{_BAR_WIDTH}}] {share:4.0%}  {progress.messages:,} messages{rate}  {seconds:.0f} s"
