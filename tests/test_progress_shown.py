"""Progress is shown in notebooks and on terminals, and nowhere else."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from twigcast import SubscriptionSet
from twigcast.progress import NotebookDisplay, TerminalDisplay, display_here, is_notebook, track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that goes on by a tenth of a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bars of a notebook, as IPython would show them: each update replaces the last one."""
    bars: list[str] = []

    class Handle:
        def update(self, content: str) -> None:
            bars[-1] = content

    def display(content: str, *, display_id: bool) -> Handle:
        assert display_id
        bars.append(content)
        return Handle()

    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython).update(get_ipython=lambda: SimpleNamespace(kernel=object()), display=shown)
    vars(shown).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return bars


def test_a_notebook_has_one_bar_that_moves(notebook: list[str]) -> None:
    assert is_notebook()
    seen = [len(notebook) for _ in track(range(50), "messages", clock=Clock())]
    assert (seen[0], seen[-1], len(notebook)) == (0, 1, 1)
    assert 'value="1.0000"' in notebook[0]
    assert "50 of 50 messages, " in notebook[0]
    list(track(range(50), "<b>", clock=Clock()))
    assert len(notebook) == 2
    assert "&lt;b&gt;" in notebook[1]


def test_adding_shows_its_progress_in_a_notebook(notebook: list[str]) -> None:
    report = SubscriptionSet().add_many({f"k{n}": "/a" for n in range(5_000)}, progress=True)
    assert report.added == 5_000
    assert "5,000 of 5,000 subscriptions" in notebook[0]
    SubscriptionSet().add_many({"k": "/a"})
    assert len(notebook) == 1, "only if it is asked for"


def test_a_terminal_has_a_line_that_goes_away() -> None:
    terminal = Terminal()
    list(track(iter(range(50)), "messages", display=TerminalDisplay(terminal), clock=Clock()))
    states = terminal.getvalue().split("\r")
    assert states[1].startswith("2 messages") or states[1].startswith("1 messages")
    assert "100%" in states[-3]
    assert (states[-2].strip(), states[-1]) == ("", "")


def test_elsewhere_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert display_here(io.StringIO()) is None
    assert isinstance(display_here(Terminal()), TerminalDisplay)
    assert list(track(range(3), "messages")) == [0, 1, 2]
    assert SubscriptionSet().add_many({"k": "/a"}, progress=True).ok
    assert capsys.readouterr() == ("", "")


def test_the_display_ends_with_the_work_also_where_it_fails(notebook: list[str]) -> None:
    terminal = Terminal()
    for display in (NotebookDisplay(), TerminalDisplay(terminal)):
        tracked = track(range(9), "messages", display=display, clock=Clock())
        with pytest.raises(ZeroDivisionError):
            list(map((5).__floordiv__, (5 - number for number in tracked)))
        tracked.close()  # type: ignore[attr-defined]
    assert len(notebook) == 1
    assert terminal.getvalue().endswith(" \r"), "the line is gone"


def test_the_reporter_of_the_pipeline_in_a_notebook(notebook: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    progress = pytest.importorskip("twigcast.spark.progress")
    reporter = progress.reporter_here()
    assert isinstance(reporter, progress.NotebookReporter)
    reporter.say("reading the subscriptions")
    reporter.progress(progress.Progress(tasks=4, tasks_done=1, messages=500))
    reporter.progress(progress.Progress(tasks=4, tasks_done=2, messages=900))
    reporter.finished()
    assert len(notebook) == 1
    assert 'value="0.5000"' in notebook[0]
    assert "900 messages" in notebook[0]
    assert capsys.readouterr().out == "reading the subscriptions\n"
