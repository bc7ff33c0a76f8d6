"""The parts that all simulations of `twigcast overlay simulate` share: a small workload, checks, and the report."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.options import SimulationOptions
from twigcast.overlay.documents import Document, read_document
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.query import Path, child, descendant

#: Names that the small workload draws from, the more often the earlier they stand.
_NAMES = ("feed", "item", "head", "title", "place", "time", "body", "link", "note", "kind", "source", "area")


@dataclass(slots=True)
class Report:
    """The results of a simulation.

    Attributes:
        measures: By name, in the order to be printed.
        drawings: SVG by file name.
        journal: The journal, if it was kept.
    """

    measures: dict[str, float | int | str] = field(default_factory=dict)
    drawings: dict[str, str] = field(default_factory=dict)
    journal: Journal | None = None

    def text(self) -> str:
        """Returns the measures, one a line."""
        width = max(map(len, self.measures), default=0)
        return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in self.measures.items())


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def small_queries(count: int, seed: int) -> list[Path]:
    """Returns path queries over the small workload's names."""
    generator = random.Random(f"queries {seed}")  # noqa: S311 - reproducible, not secret
    queries = []
    for _ in range(count):
        steps = []
        for _ in range(generator.randint(2, 5)):
            label = "*" if generator.random() < 0.2 else _name(generator)
            steps.append((descendant if generator.random() < 0.2 else child)(label))
        queries.append(Path.absolute(child("feed"), *steps))
    return queries


def small_documents(count: int, seed: int) -> Iterable[Document]:
    """Yields messages over the same names."""
    generator = random.Random(f"messages {seed}")  # noqa: S311 - reproducible, not secret
    for number in range(count):
        yield read_document(f"message {number}", f"<feed>{_content(generator, 4)}</feed>".encode())


def _content(generator: random.Random, left: int) -> str:
    if not left:
        return ""
    parts = []
    for _ in range(generator.randint(1, 3)):
        name = _name(generator)
        parts.append(f"<{name}>{_content(generator, left - 1)}</{name}>")
    return "".join(parts)


def _name(generator: random.Random) -> str:
    return _NAMES[min(int(generator.expovariate(0.3)), len(_NAMES) - 1)]


class RunClock:
    """The time and memory of a run."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._processor = time.process_time()
        self._memory = _memory_bytes()

    def note(self, report: Report, events: int, nodes: int) -> None:
        """Adds the measures to a report."""
        seconds = time.perf_counter() - self._started
        busy = time.process_time() - self._processor
        report.measures["events"] = events
        report.measures["events a second of processor time"] = round(events / busy) if busy else 0
        report.measures["kB of memory a node"] = max(0.0, (_memory_bytes() - self._memory) / 1000 / max(1, nodes))
        report.measures["seconds"] = seconds


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check_counts(options: SimulationOptions, **counts: int) -> None:
    """Raises ImpossibleSetting if there is no node, or one of the counts is negative."""
    if options.nodes < 1:
        raise ImpossibleSetting("nodes", options.nodes, "at least 1")
    for name, count in counts.items():
        if count < 0:
            raise ImpossibleSetting(name, count, "at least 0")


def check_crashes(options: SimulationOptions) -> None:
    """Raises ImpossibleSetting unless some nodes survive."""
    if not 0 <= options.crashes < options.nodes:
        raise ImpossibleSetting("crashes", options.crashes, "at least 0 and fewer than nodes")
