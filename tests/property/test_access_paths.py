"""Queries of every kind match where libxml2 says so: alone, among many, under changes.

``TWIGCAST_TEST_SEED`` and ``TWIGCAST_TEST_ROUNDS`` choose a longer or another run.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable

import pytest
from lxml import etree

from tests.seeds import seed_or
from twigcast.subscriptions import SubscriptionSet

ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "6"))
SEED = seed_or(20261129)

CODES = [f"{number:03d}" for number in range(40)]
WORDS = ("flood", "fl", "storm", "stormy", "Storm", "wind", "in", "a")
LOWER = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'"
OPERATORS = ("=", "=", "!=", "<", "<=", ">", ">=")


class Feed:
    """Alerts and queries about them, from one source of randomness."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def message(self) -> str:
        """Returns an alert."""
        r = self.random
        values = "".join(
            f"<p><n>n{r.randrange(4)}</n>"
            + "".join(f"<v>{r.randrange(20)}</v>" for _ in range(r.choice((0, 1, 1, 1, 2))))
            + "</p>"
            for _ in range(r.randrange(4))
        )
        areas = "".join(
            f"<area k='{r.choice(CODES)}'>"
            + "".join(
                f"<g t='{r.choice('ab')}'><t>{r.choice('AB')}</t><c>{r.choice(CODES)}</c></g>"
                for _ in range(r.randrange(4))
            )
            + "</area>"
            for _ in range(r.randrange(3))
        )
        words = " ".join(r.choice(WORDS) for _ in range(r.randrange(6)))
        info = f"<event>{r.choice(WORDS)}</event>{values}<text>{words}</text>{areas}"
        return f"<alert><sent>{r.randrange(9)}</sent><info>{info}</info></alert>"

    def operand(self) -> str:
        """Returns what a condition on any element may compare."""
        r = self.random
        return r.choice(
            (
                ".",
                "@k",
                "@t",
                "v",
                "n",
                "c",
                "t",
                "event",
                "text",
                "g/c",
                "p/v",
                "g[t = 'A']/c",
                ".//c",
                "*",
                "text()",
                "../@k",
                "area/@k",
            )
        )

    def elsewhere(self) -> str:
        """Returns a path from the document node, for a comparison with what is found there."""
        r = self.random
        owner, asked = r.choice((("//area", "@k"), ("//g", "c"), ("/alert/info/p", "n"), ("//g", "@t")))
        constant = r.choice((f"'{r.choice(CODES)}'", f"'n{r.randrange(4)}'", "'a'"))
        return f"{owner}[{asked} = {constant}]/{r.choice((asked, 'c', 'v', 't'))}"

    def predicates(self) -> str:
        """Returns the predicates of a step; some count."""
        r = self.random
        made = [f"[{self.condition()}]" for _ in range(r.choice((1, 1, 2)))]
        if r.random() < 0.15:
            made.insert(r.randrange(len(made) + 1), r.choice(("[1]", "[last()]", "[position() < 3]", "[last() - 1]")))
        return "".join(made)

    def condition(self, depth: int = 0) -> str:
        """Returns a condition on any element."""
        r = self.random
        operand = self.operand()
        constant = r.choice(
            (f"'{r.choice(CODES)}'", f"'{r.choice(WORDS)}'", f"{r.randrange(20)}", f"'{r.choice('AB')}'")
        )
        codes = " or ".join(f"{operand} = '{code}'" for code in r.sample(CODES, r.choice((2, 16, 17, 30))))
        simple: tuple[Callable[[], str], ...] = (
            lambda: f"{operand} {r.choice(OPERATORS)} {constant}",
            lambda: f"{operand} {r.choice(OPERATORS)} {constant}",
            lambda: f"{operand} >= {r.randrange(20)} and {operand} < {r.randrange(20)}",
            lambda: f"starts-with({operand}, '{r.choice(('0', '01', 'fl', 's'))}')",
            lambda: f"contains({operand}, '{r.choice(WORDS)}')",
            lambda: f"contains(translate({operand}, {LOWER}), '{r.choice(WORDS)}')",
            lambda: f"({codes})",
            lambda: f"count({operand}) {r.choice(OPERATORS)} {r.randrange(3)}",
            lambda: f"{r.choice(('normalize-space', 'string-length', 'string', 'number'))}({operand}) = {constant}",
            lambda: f"{operand} {r.choice(OPERATORS)} {self.elsewhere()}",
            lambda: f"{self.elsewhere()} {r.choice(OPERATORS)} {operand}",
            lambda: f"p[n = 'n{r.randrange(4)}']/v div 4 {r.choice(OPERATORS)} {r.randrange(5)}",
            lambda: f"area[@k = '{r.choice(CODES)}']/g/c {r.choice(OPERATORS)} {constant}",
        )
        nested: tuple[Callable[[], str], ...] = (
            lambda: f"not({self.condition(depth + 1)})",
            lambda: f"({self.condition(depth + 1)} or {self.condition(depth + 1)})",
            lambda: f"{self.condition(depth + 1)} and {self.condition(depth + 1)}",
            lambda: f"{r.choice(('p', 'g', 'area', 'info', 'v', '*'))}[{self.condition(depth + 1)}]",
        )
        return r.choice(simple + nested if depth < 2 else simple)()

    def query(self) -> str:
        """Returns a query about alerts."""
        r = self.random
        path = r.choice(
            ("/alert", "/alert/info", "//info", "/alert/info/p", "//p", "//g", "//area/g", "/alert//area", "//*", "//v")
        )
        query = path + self.predicates()
        if r.random() < 0.2:
            query += r.choice(("/g", "//c", "/v", "/@k", "/text"))
        if r.random() < 0.1:
            query = f"{query} {r.choice(('and', 'or'))} {path}[{self.condition()}]"
        if r.random() < 0.1:
            query = f"contains({path}/{r.choice(('text', 'event'))}, '{r.choice(WORDS)}') and {query}"
        return query


def expected(document: etree._Element, compiled: dict[str, etree.XPath]) -> set[str]:
    """Returns the queries that libxml2 finds true."""
    return {query for query, xpath in compiled.items() if bool(xpath(document))}


@pytest.mark.parametrize("population", [1, 100, pytest.param(3_000, marks=pytest.mark.slow)])
def test_queries_among_others_match_as_alone(population: int) -> None:
    feed = Feed(SEED + population)
    rounds = ROUNDS * 20 if population == 1 else ROUNDS
    matched = 0
    for number in range(rounds):
        print(f"seed {SEED + population}, round {number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subscriptions = SubscriptionSet()
            compiled: dict[str, etree.XPath] = {}
            for _ in range(3):
                while len(compiled) < population:
                    query = feed.query()
                    compiled[query] = etree.XPath(query)
                    subscriptions.add_many([(query, query)], replace=True)
                message = feed.message()
                found = set(subscriptions.match(message).keys)
                wanted = expected(etree.fromstring(message), compiled)
                assert found == wanted, (message, found ^ wanted)
                matched += len(found)
                for query in list(compiled)[: population // 3 + 1]:
                    del compiled[query]
                    subscriptions.remove(query)
    assert matched > rounds * population // 20
