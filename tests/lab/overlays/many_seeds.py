"""Runs a property over very many seeds on all cores: one test, thousands of small networks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

FACTOR = float(os.environ.get("TWIGCAST_TEST_OVERLAY_SEEDS", "1"))
"""Times the usual number of seeds: below 1 for a quick look, 100 for a night. The usual number takes a test about 20
seconds on two cores."""

Violations = Sequence[object]


def seeds(number: int, first: int) -> range:
    """So many seeds from `first` on, times the factor from the environment."""
    return range(first, first + max(1, round(number * FACTOR)))


def failures(play: Callable[[int], Violations], chosen: Iterable[int]) -> dict[int, str]:
    """Play every seed; returns what went wrong by seed, nothing if all is well.

    Args:
        play: A function of a module, so that other processes find it; says what is wrong with one seed.
        chosen: The seeds.
    """
    numbers = list(chosen)
    workers = min(os.cpu_count() or 1, 8)
    # Spawned, not forked: the test run has threads of its own.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        size = max(1, len(numbers) // (8 * workers))
        return {seed: wrong for seed, wrong in pool.map(partial(_played, play), numbers, chunksize=size) if wrong}


def settled(advance: Callable[[], object], judge: Callable[[], Violations], rounds: int, *, whole: bool) -> Violations:
    """Let a network settle; returns what is wrong with it in the end.

    Most networks are sound soon after their trace, and what follows is heartbeats. So a run ends when the judge has
    found nothing wrong twice in a row. A few run on before they are judged: what goes wrong late is found there. One
    look does not suffice for them either, since a change may be on its way to the copies at that moment.

    Args:
        advance: Goes on for one round.
        judge: Says what is wrong now.
        rounds: Most rounds.
        whole: Go as many rounds before the first judgement.
    """
    for _ in range(rounds if whole else 0):
        advance()
    sound = 0
    for _ in range(rounds):
        advance()
        sound = 0 if judge() else sound + 1
        if sound == 2:
            return []
    return judge()


def _played(play: Callable[[int], Violations], seed: int) -> tuple[int, str]:
    results = play(seed)
    return seed, f"{len(results)} violations, first: {results[0]}" if results else ""
