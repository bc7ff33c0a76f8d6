"""Counts the published statements of a report, each once, by what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twigcast.lab.experiments.framework.model import Held, Scale, Verdict

_ORDER: Mapping[Held, int] = {"held": 0, "not held": 0, "not reached": 1, "not checked": 2}


@dataclass(frozen=True, slots=True)
class Headline:
    """Statements, each counted once however often it was measured."""

    published: Mapping[Held, int]
    """How many published statements have each verdict."""
    ours: int
    """Conjectures of ours, which are not among them."""

    @property
    def total(self) -> int:
        """Returns how many published statements were judged."""
        return sum(self.published.values())


def headline(judged: Mapping[tuple[str, Scale], Sequence[Verdict]]) -> Headline:
    """Counts the statements of all runs, each once.

    A statement may have been judged at two scales and on other data (``@nitf``). The verdict that counts is one that
    says yes or no rather than one that could not tell; among these the one at the published size; among these the one
    on the bundled data, which everybody can run again.

    Args:
        judged: Verdicts by id of the experiment and scale.
    """
    chosen: dict[tuple[str, str], tuple[tuple[int, bool, bool], Verdict]] = {}
    for (name, scale), verdicts in judged.items():
        base, _, variant = name.partition("@")
        for verdict in verdicts:
            rank = (_ORDER[verdict.held], scale != "paper", bool(variant))
            known = chosen.get((base, verdict.claim))
            if known is None or rank < known[0]:
                chosen[base, verdict.claim] = (rank, verdict)
    final = [verdict for _, verdict in chosen.values()]
    published: dict[Held, int] = {
        held: sum(verdict.held == held and not verdict.ours for verdict in final) for held in _ORDER
    }
    return Headline(published, sum(verdict.ours for verdict in final))
