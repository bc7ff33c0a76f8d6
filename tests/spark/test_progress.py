"""What the pipeline tells people: progress, the table at the end, and failures in a sentence."""

import io
from dataclasses import replace

import pytest

from twigcast.spark.jobs import cause
from twigcast.spark.progress import Progress, TerminalReporter, progress_line
from twigcast.spark.summary import Summary, TaskReport


class Screen(io.StringIO):
    """A terminal, or not."""

    def __init__(self, *, moves: bool) -> None:
        super().__init__()
        self._moves = moves

    def isatty(self) -> bool:
        return self._moves


def test_a_bar_moves_on_a_terminal_and_goes_away() -> None:
    screen, now = Screen(moves=True), 100.0
    terminal = TerminalReporter(screen, clock=lambda: now)
    terminal.progress(Progress(tasks=4, tasks_done=1, messages=500))
    now += 2
    terminal.progress(Progress(tasks=4, tasks_done=2, messages=1_000))
    terminal.say("next")
    terminal.finished()
    bars = screen.getvalue().split("\r")
    assert bars[1].startswith("[######                  ]  25%  500 messages")
    assert "1,000 messages, 500 a second" in bars[2]
    assert bars[3].isspace()
    assert bars[4] == "next\n"


def test_elsewhere_there_is_a_line_now_and_then() -> None:
    screen, now = Screen(moves=False), 0.0
    terminal = TerminalReporter(screen, clock=lambda: now)
    for second in range(25):
        now = float(second)
        terminal.progress(Progress(10, second // 3, second * 10))
    assert [line.split("]")[1] for line in screen.getvalue().splitlines()] == [
        "  30%  100 messages, 10 a second  10 s",
        "  60%  200 messages, 10 a second  20 s",
    ]


def test_progress_before_anything_is_known() -> None:
    assert progress_line(Progress(0, 0, 0), 0.0).endswith("]   0%  0 messages  0 s")


def test_the_table_at_the_end() -> None:
    reports = [TaskReport(0, 1, 1_000, 20, 3, 1, 50_000), TaskReport(1, 2, 500, 5, 0, 0, 25_000)]
    summary = Summary().plus(reports, 2.5, 40, 2).plus([], 0.5, 41, 0)
    assert summary.as_dict() == {
        "messages": 1_500,
        "matches": 25,
        "deliveries": 3,
        "rejected": 1,
        "subscriptions": 41,
        "refused": 0,
        "bytes": 75_000,
        "seconds": 3.0,
    }
    assert summary.table().splitlines()[0] == "messages       1,500 (500 a second)"
    assert replace(summary, messages=99).table().splitlines()[0] == "messages       99"
    assert "subscriptions  0" in Summary().table()
    assert "40 (2 refused)" in Summary().plus(reports, 1.0, 40, 2).table()


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "x.py", line 1, in f\ntwigcast.errors.SnapshotError: /tmp/s: it is damaged\n',
            "/tmp/s: it is damaged",
        ),
        (
            "[X] failed: Traceback (most recent call last):\n"
            "OSError: [Errno 28] No space left on device\n SQLSTATE: 38000\n",
            "OSError: [Errno 28] No space left on device",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space\n\tat a.b(C.java:1)\n",
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        ("something else\nentirely", "something else"),
        ("", "Spark gives no reason"),
    ],
)
def test_the_cause_of_a_failure_in_a_sentence(report: str, sentence: str) -> None:
    assert cause(report) == sentence
