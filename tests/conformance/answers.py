"""What an engine says of a case, and how that differs from what the case expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.canonical import expanded
from tests.conformance.cases import Case, ExpectedError
from twigcast.errors import TwigcastError


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine says of a message; ``None`` where it was not asked."""

    keys: frozenset[str] | None = None
    nodes: Mapping[str, list[str]] | None = None
    """The selected nodes of some subscriptions, as locations."""

    counts: Mapping[str, int] | None = None
    payloads: Mapping[str, bytes | None] | None = None
    """What each subscription that matches gets; ``None``: the message itself."""

    undecided: Mapping[str, str] = field(default_factory=dict)
    """Subscriptions that failed on the message, with the reason."""

    error: ExpectedError | None = None
    """Why the message was refused; ``contains`` is the reason."""


def error_of(error: TwigcastError) -> ExpectedError:
    """An error as cases write it; ``contains`` is all that it says."""
    return ExpectedError(
        error.code,
        getattr(error, "line", None),
        getattr(error, "column", None),
        getattr(error, "limit", None),
        str(error),
    )


def error_faults(expected: ExpectedError, found: ExpectedError | None) -> list[str]:
    """How an error differs from the one expected."""
    if found is None:
        return [f"not refused, but {expected} was expected"]
    faults = []
    for name in ("code", "line", "column", "limit"):
        wanted, got = getattr(expected, name), getattr(found, name)
        # Not every way to ask tells all: Spark has no codes, and batches no limits.
        if wanted is not None and got not in (None, "") and wanted != got:
            faults.append(f"error {name} is {got}, expected {wanted}")
    if expected.contains not in found.contains:
        faults.append(f"the error says {found.contains!r}, expected {expected.contains!r}")
    return faults


def faults_of(case: Case, answer: Answer) -> list[str]:
    """How an answer differs from the one expected; what it does not tell is not compared."""
    if case.error is not None:
        return error_faults(case.error, answer.error)
    if answer.error is not None:
        return [f"refused: {answer.error}"]
    assert case.matches is not None
    faults = []
    # A subscription that fails while its result is made has matched, but delivers nothing.
    delivering = case.matches - case.undecided.keys()
    if answer.keys is not None and answer.keys != (case.matches if answer.payloads is None else delivering):
        faults.append(f"matches {sorted(answer.keys)}, expected {sorted(case.matches)}")
    faults += _node_faults(case, answer)
    if answer.payloads is not None:
        faults += _payload_faults(case, answer.payloads)
        faults += _undecided_faults(case, answer.undecided)
    return faults


def _node_faults(case: Case, answer: Answer) -> Iterator[str]:
    for key, nodes in case.nodes.items():
        if answer.nodes is not None and key in answer.nodes and answer.nodes[key] != list(nodes):
            yield f"{key} selects {answer.nodes[key]}, expected {list(nodes)}"
    for key, count in case.counts.items():
        if answer.counts is not None and answer.counts.get(key, 0) != count:
            yield f"{key} selects {answer.counts.get(key, 0)} nodes, expected {count}"


def _payload_faults(case: Case, payloads: Mapping[str, bytes | None]) -> Iterator[str]:
    for key, wanted in case.payloads.items():
        got = payloads.get(key)
        if got is None:
            yield f"{key} gets {'the message' if key in payloads else 'nothing'}, expected {wanted!r}"
        elif expanded(got) != expanded(wanted):
            yield f"{key} gets {got.decode()!r}, expected {wanted!r}"
    flwr = {query.key for query in case.queries if query.is_flwr}
    for key, got in payloads.items():
        if got is not None and key not in flwr:
            yield f"{key} rewrites the message: {got!r}"


def _undecided_faults(case: Case, undecided: Mapping[str, str]) -> Iterator[str]:
    if undecided.keys() != case.undecided.keys():
        yield f"undecided {sorted(undecided)}, expected {sorted(case.undecided)}"
    for key, reason in case.undecided.items():
        if reason not in undecided.get(key, reason):
            yield f"{key} is undecided because {undecided[key]!r}, expected {reason!r}"


def no_answer(case: Case) -> str | None:
    """Why a case has nothing to match: its query is refused, and that is the runner of refusals' business."""
    return "the query is refused, whichever way it would run" if case.matches is None and case.error is None else None


TALLY: Final[dict[str, Counter[str]]] = {}
"""By runner: how many cases it ran (under the empty reason), and how many it skipped for which reason."""


class Check:
    """The work of one runner on some cases: each is run, or skipped with a reason."""

    def __init__(self, runner: str) -> None:
        self._runner = runner
        self._tally = TALLY.setdefault(runner, Counter())
        self._skipped: Counter[str] = Counter()
        self._run: set[str] = set()
        self._faults: list[str] = []

    def select(self, cases: Iterable[Case], reason: Callable[[Case], str | None] = lambda _: None) -> Iterator[Case]:
        """The cases that the runner takes. The others are counted with their reason: their own, or the runner's."""
        for case in cases:
            why = case.skip.get(self._runner) or reason(case)
            if why:
                self._skipped[why] += 1
            else:
                yield case

    def skip(self, _: Case, why: str) -> None:
        """Note that a case that was selected could not be run after all."""
        self._skipped[why] += 1

    def add(self, case: Case, faults: Iterable[str]) -> None:
        """Note how a case went."""
        self._run.add(case.id)
        queries = "; ".join(f"{query.key}: {query.query[:300]}" for query in case.queries[:5])
        self._faults += [f"{case.id}: {fault}\n    {queries}\n    on {case.message[:300]!r}" for fault in faults]

    def answer(self, case: Case, answer: Answer) -> None:
        """Note what an engine says of a case."""
        self.add(case, faults_of(case, answer))

    def finish(self) -> None:
        """Fail with all that is wrong, or skip where there was nothing to run."""
        self._tally.update(self._skipped)
        self._tally[""] += len(self._run)
        assert not self._faults, "\n".join([f"{len(self._faults)} faults", *self._faults[:40]])
        if not self._run:
            pytest.skip("; ".join(self._skipped) or "no cases")
