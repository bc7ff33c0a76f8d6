"""Deep messages: what queries ask of ancestors is answered like libxml2 does, from few levels to many."""

from __future__ import annotations

import random

import lxml.etree
import pytest

from twigcast import Limits, SubscriptionSet

NAMES = ("a", "b", "c")
ATTRIBUTES = ("n", "k")


def _message(chance: random.Random, depth: int) -> str:
    """A tree that goes down, some way up, and down again, so that ancestors change at all levels."""
    parts: list[str] = []
    open_names: list[str] = []
    for _ in range(depth * 2):
        if open_names and chance.random() < 0.35:
            closed = min(chance.choice((1, 1, 2, 5, 40)), len(open_names) - 1)
            parts.extend(f"</{open_names.pop()}>" for _ in range(closed))
        name = chance.choice(NAMES)
        attributes = "".join(f" {a}='{chance.randrange(6)}'" for a in ATTRIBUTES if chance.random() < 0.4)
        parts.append(f"<{name}{attributes}>")
        if chance.random() < 0.2:
            parts.append(str(chance.randrange(4)))
        open_names.append(name)
    parts.extend(f"</{name}>" for name in reversed(open_names))
    return "".join(parts)


def _query(chance: random.Random) -> str:
    query = ""
    for _ in range(chance.randrange(1, 5)):
        query += chance.choice(("/", "//", "//")) + chance.choice((*NAMES, "*"))
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            query += f"[{_condition(chance)}]"
    return query


def _condition(chance: random.Random) -> str:
    attribute, number = chance.choice(ATTRIBUTES), chance.randrange(7)
    return chance.choice(
        (
            f"@{attribute} = {number}",
            f"@{attribute} = '{number}'",
            f"@{attribute} > {number}",
            f"@{attribute} != {number}",
            f"not(@{attribute} = {number})",
            f"@{attribute}",
            f". = {number}",
            f"{chance.choice(NAMES)}[@{attribute} = {number}]",
            f".//{chance.choice(NAMES)}",
            f"starts-with(@{attribute}, '{number}')",
            str(1 + number % 3),
        )
    )


@pytest.mark.parametrize("seed", range(12))
def test_ancestors_are_asked_like_libxml2_does(seed: int) -> None:
    chance = random.Random(seed)
    # One in many queries matches a large message only in one place.
    queries = [_query(chance) for _ in range(150)]
    queries += [query + f"[@n = {chance.randrange(6)}][@k = {chance.randrange(6)}]" for query in queries]
    subscriptions = SubscriptionSet(limits=Limits(depth_max=10_000))
    subscriptions.add_many([(str(number), query) for number, query in enumerate(queries)]).raise_if_refused()
    compiled = [lxml.etree.XPath(query) for query in queries]
    parser = lxml.etree.XMLParser(huge_tree=True)
    for depth in (5, 40, 80, 120, 160):
        message = _message(chance, depth)
        tree = lxml.etree.fromstring(message.encode(), parser)
        expected = {str(number) for number, query in enumerate(compiled) if query(tree)}
        assert set(subscriptions.match(message).keys) == expected, f"seed {seed}, depth {depth}: {message}"
