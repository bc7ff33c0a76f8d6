"""Random populations on random messages: the engine answers what libxml2 answers, in truth and in numbers of nodes.

Many queries run at once, so that whatever they share (automaton, keys, twigs) is shared. ``TWIGCAST_TEST_SEED`` and
``TWIGCAST_TEST_ROUNDS`` choose a longer or another run of :func:`test_seeded_run_agrees`.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.seeds import seed_or
from tests.strategies import NAMESPACES, Generator
from twigcast.subscriptions import SubscriptionSet

QUERIES_PER_ROUND = 40
MESSAGES_PER_ROUND = 8
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "150"))
SEED = seed_or(20261128)


def differs_in_libxml2(message: str, query: str) -> bool:
    """Whether libxml2 may depart from the Recommendation on this pair (see ``tests/corpus/xpath/once_wrong.toml``)."""
    return "preceding::" in query and message.endswith("<!--end-->\n")


def population(generator: Generator, size: int) -> SubscriptionSet:
    """A set of random queries, numbered."""
    subscriptions = SubscriptionSet(namespaces=NAMESPACES)
    refused = subscriptions.add_many([(str(number), generator.query()) for number in range(size)]).refused
    assert not refused, refused[0].error
    return subscriptions


def check(subscriptions: SubscriptionSet, message: str, reproduce: str = "") -> None:
    """Compare one message's answers with libxml2's."""
    tree = etree.ElementTree(etree.fromstring(message.encode()))
    matched = set(subscriptions.match(message.encode()).keys)
    counts = subscriptions.node_counts(message.encode())
    assert set(counts) == matched
    for key in subscriptions:
        query = subscriptions[key].query
        if differs_in_libxml2(message, query):
            continue
        about = f"\n{query}\n{message}\n{subscriptions.describe(key)}\n{reproduce}"
        truth = tree.xpath(f"boolean({query})", namespaces=NAMESPACES)
        assert (key in matched) == truth, f"match {key in matched}, libxml2 {truth}{about}"
        if truth and isinstance(tree.xpath(query, namespaces=NAMESPACES), list):
            nodes = tree.xpath(f"count({query})", namespaces=NAMESPACES)
            assert counts[key] == nodes, f"{counts[key]} nodes, libxml2 {nodes}{about}"
            assert len(subscriptions.nodes(message.encode(), key)) == nodes, about


@pytest.mark.slow
def test_seeded_run_agrees() -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        generator = Generator(random.Random(seed))
        subscriptions = population(generator, QUERIES_PER_ROUND)
        for _ in range(MESSAGES_PER_ROUND):
            check(subscriptions, generator.message(), f"TWIGCAST_TEST_SEED={seed} TWIGCAST_TEST_ROUNDS=1")


@given(st.randoms(use_true_random=False))
def test_shrinkable_pairs_agree(source: random.Random) -> None:
    generator = Generator(source)
    check(population(generator, 1), generator.message())


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.data())
def test_answers_survive_change(source: random.Random, data: st.DataObject) -> None:
    generator = Generator(source)
    subscriptions = population(generator, 6)
    message = generator.message()
    check(subscriptions, message)
    for key in data.draw(st.lists(st.sampled_from(subscriptions.keys()), unique=True, max_size=4)):
        if data.draw(st.booleans()):
            subscriptions.remove(key)
        else:
            subscriptions.add_many([(key, generator.query())], replace=True).raise_if_refused()
        check(subscriptions, message)
