"""Sets that change: the subscriptions of a case stay, while others come and go between messages."""

from __future__ import annotations

import random

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check
from tests.conformance.cases import all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow

SEED = 20261129
ROUNDS = 12


def test_after_changes() -> None:
    run = Check("churn")
    for number, group in enumerate(groups(run, all_cases())):
        chance = random.Random(SEED + number)
        population, waiting = engines.empty_set(group.limits), group.subscriptions
        strangers = [engines.renamed(each, f"stranger {each.key}") for each in waiting]
        messages = group.messages
        chance.shuffle(waiting)
        for round_ in range(ROUNDS):
            part = -(-len(waiting) // (ROUNDS - round_))
            added, waiting = waiting[:part], waiting[part:]
            others = chance.sample(strangers, min(len(strangers), 2 * part))
            # What comes first goes again; then the queries are known, or have been.
            refused = engines.add(population, others + added)
            assert not refused, refused
            for message in chance.sample(messages, min(len(messages), 5)):
                engines.ask(population, message, ())
            for stranger in others:
                population.remove(stranger.key)
        assert len(population) == len(group.subscriptions)
        asked = {message: engines.ask(population, message, ()) for message in messages}
        delivered = {message: engines.deliver(population, message) for message in messages}
        for answers in (asked, delivered):
            for case, answer in group.answers(answers):
                run.answer(case, answer)
    run.finish()
