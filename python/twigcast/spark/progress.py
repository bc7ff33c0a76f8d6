"""Reports on the progress of a pipeline."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from twigcast.progress import NotebookDisplay, bar, is_notebook

_PLAIN_SECONDS: Final = 10.0
"""If the output is no terminal, a line this often."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job."""

    tasks: int
    """0 if only Spark knows."""

    tasks_done: int

    messages: int
    """Messages of the tasks that are done."""


Listener = Callable[[Progress], None]


class ProgressReporter(Protocol):
    """A receiver of the progress of a pipeline."""

    def say(self, text: str) -> None:
        """Receives a line about an event."""

    def progress(self, progress: Progress) -> None:
        """Receives the progress of the current job, on a thread of its own."""

    def finished(self) -> None:
        """Receives the end of the current job."""


class SilentReporter:
    """A reporter that does nothing."""

    def say(self, text: str) -> None:
        """Does nothing."""

    def progress(self, progress: Progress) -> None:
        """Does nothing."""

    def finished(self) -> None:
        """Does nothing."""


class TerminalReporter:
    """A reporter on standard error: with a moving bar on a terminal, elsewhere with a line every 10 seconds.

    Args:
        stream: Another stream than standard error.
        clock: Returns the time in seconds.
        advice: Rewrites the advice of errors for the reader.
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
        """Writes a line."""
        self._erase()
        print(self._advice(text), file=self._stream, flush=True)

    def progress(self, progress: Progress) -> None:
        """Moves the bar, or writes a line if the last one is old enough."""
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
        """Removes the bar."""
        self._erase()
        self._began = None

    def _erase(self) -> None:
        if self._shown:
            print("\r" + " " * self._shown + "\r", end="", file=self._stream, flush=True)
            self._shown = 0


class NotebookReporter:
    """A reporter in a notebook: with a bar below the cell, and what is said in lines of its output."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = NotebookDisplay()
        self._clock = clock
        self._began: float | None = None

    def say(self, text: str) -> None:
        """Prints a line."""
        print(text)

    def progress(self, progress: Progress) -> None:
        """Moves the bar."""
        now = self._clock()
        self._began = now if self._began is None else self._began
        self._display.show(_share(progress), _progress_text(progress, now - self._began))

    def finished(self) -> None:
        """Leaves the bar as it is."""
        self._display.finish()
        self._began = None


def reporter_here() -> ProgressReporter:
    """Returns the reporter of a caller who names none: a bar in a notebook, silence everywhere else."""
    return NotebookReporter() if is_notebook() else SilentReporter()


def progress_line(progress: Progress, seconds: float) -> str:
    """Returns a line about the progress of a job."""
    return f"{bar(_share(progress))}  {_progress_text(progress, seconds)}"


def _share(progress: Progress) -> float:
    return progress.tasks_done / progress.tasks if progress.tasks else 0.0


def _progress_text(progress: Progress, seconds: float) -> str:
    rate = f", {progress.messages / seconds:,.0f} a second" if seconds >= 1 and progress.messages else ""
    return f"{progress.messages:,} messages{rate}  {seconds:.0f} s"
