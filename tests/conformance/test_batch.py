"""Batches of messages: all cases in one set, all messages in one batch, by one thread and by four, and in groups."""

from __future__ import annotations

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check
from tests.conformance.cases import all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("threads", [1, 4])
def test_batches(threads: int) -> None:
    run = Check(f"batch-{threads}")
    for group in groups(run, all_cases()):
        population, messages = group.population(), group.messages
        for rewrite in (False, True):
            found = engines.batch(population, messages, threads=threads, rewrite=rewrite)
            for case, answer in group.answers(dict(zip(messages, found, strict=True))):
                run.answer(case, answer)
    run.finish()


def test_groups() -> None:
    run = Check("batch-grouped")
    for group in groups(run, all_cases()):
        messages = group.messages
        found = engines.grouped(group.population(), messages)
        for case, answer in group.answers(dict(zip(messages, found, strict=True))):
            run.answer(case, answer)
    run.finish()
