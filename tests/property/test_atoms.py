"""Each kind of test of a value finds its queries where libxml2 and Saxon say so: alone, among many, under changes.

``TWIGCAST_TEST_PAIRS`` says how many pairs of query and message each kind is compared on, ``TWIGCAST_TEST_SEED``
chooses others. With 200,000 pairs, ``python -m pytest -q tests/property/test_atoms.py -k alone`` takes two minutes.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pyarrow as pa
import pytest
from lxml import etree

from tests.seeds import seed_or
from twigcast.errors import QueryWarning
from twigcast.subscriptions import SubscriptionSet

PAIRS = int(os.environ.get("TWIGCAST_TEST_PAIRS", "3000"))
SEED = seed_or(20261130)
POPULATIONS = (100, 10_000)
MESSAGES_ALONE = 200
"""Messages that each query of a population of one is compared on."""
QUERIES_ALONE = 50
"""Queries that replace each other in one population of one."""
SAXON_QUERIES = 200
"""Queries that Saxon decides in one go."""

UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
WORDS = ("flood", "Flood", "flo", "storm", "storms", "or", "wind", "window", "x")


def message(r: random.Random) -> str:
    """Returns a message: ``v`` and ``@n`` are numbers, ``c`` and ``@k`` codes, ``w`` words."""

    def item(depth: int) -> str:
        inner = "".join(item(depth + 1) for _ in range(r.choice((0, 0, 1, 2)) if depth < 2 else 0))
        values = "".join(f"<v>{number(r)}</v>" for _ in range(r.choice((0, 1, 1, 2))))
        codes = "".join(f"<c>{code(r)}</c>" for _ in range(r.choice((0, 1, 1, 2))))
        words = "".join(f"<w>{phrase(r)}</w>" for _ in range(r.choice((0, 1, 2))))
        kept = f" k='{code(r)}'" if r.random() < 0.7 else ""
        kept += f" n='{number(r)}'" if r.random() < 0.7 else ""
        return f"<{(name := r.choice('ab'))}{kept}>{values}{codes}{words}{inner}</{name}>"

    return f"<m>{''.join(item(0) for _ in range(r.randrange(1, 4)))}</m>"


def number(r: random.Random) -> str:
    return r.choice((str(r.randrange(40)), f"{r.randrange(40)}.5", f"-{r.randrange(5)}"))


def code(r: random.Random) -> str:
    return f"{r.randrange(60):02d}{r.choice('ABab')}"


def phrase(r: random.Random) -> str:
    return r.choice((" ", "")) + " ".join(r.choice(WORDS) for _ in range(r.randrange(5)))


def place(r: random.Random) -> str:
    """Returns a path to elements that have values."""
    return r.choice(("/m/a", "//a", "//b", "/m/*", "//a/b", "/m//b", "/m/a/*"))


def text_of(r: random.Random) -> str:
    """Returns what has at most one string at such an element."""
    return r.choice(("@k", "string(c[1])", "string(w[1])", "@k", "string(.)"))


def one_of(*forms: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    return lambda r: r.choice(forms)(r)


def _range(r: random.Random) -> str:
    low = r.randrange(-3, 40)
    of = r.choice(("v", "@n", "b/v", "sum(v)", "count(*)"))
    return f"{of} >= {low} and {of} {r.choice(('<', '<='))} {low + r.randrange(12)}"


def _list(r: random.Random) -> str:
    of = r.choice(("c", "@k", "b/c"))
    return "(" + " or ".join(f"{of} = '{code(r)}'" for _ in range(r.choice((2, 5, 17, 40)))) + ")"


def ends_with(of: str, end: str) -> str:
    """Returns the idiom of XPath 1.0."""
    return f"substring({of}, string-length({of}) - {len(end) - 1}) = '{end}'"


CONDITIONS: dict[str, Callable[[random.Random], str]] = {
    "equal text": lambda r: (
        f"{r.choice(('c', '@k', 'b/c', './/c', 'w', '../@k'))} = '{r.choice((code(r), phrase(r)))}'"
    ),
    "equal number": lambda r: f"{r.choice(('v', '@n', 'b/v', 'count(.//v)', 'sum(v)'))} = {number(r)}",
    "list": _list,
    "unequal": one_of(
        lambda r: f"{r.choice(('c', '@k', 'b/@k'))} != '{code(r)}'",
        lambda r: f"{r.choice(('v', '@n', 'sum(v)'))} != {number(r)}",
        lambda r: " and ".join(f"{of} != '{code(r)}'" for of in [r.choice(("c", "@k", "w"))] * r.choice((2, 5, 40))),
        lambda r: f"name() != '{r.choice('abm')}' and {r.choice(('c', '@k'))} != '{code(r)}'",
    ),
    "bound": lambda r: (
        f"{r.choice(('v', '@n', 'b/v', 'sum(v)', '../@n'))} {r.choice(('<', '<=', '>', '>='))} {number(r)}"
    ),
    "bound beside": lambda r: f"{r.choice(('c', '@k', 'b/c'))} = '{code(r)}' and v {r.choice(('<', '>='))} {number(r)}",
    "range": _range,
    "none in range": lambda r: (
        f"not({r.choice(('v', '@n', 'b/v', './/v'))} {r.choice(('<', '<=', '>', '>='))} {number(r)})"
    ),
    "prefix": lambda r: f"starts-with({text_of(r)}, '{r.choice((code(r)[:2], code(r)[:1], 'flo', 's', ' '))}')",
    "suffix": lambda r: ends_with(text_of(r), r.choice(("A", "ms", "ood", "or"))),
    "part": lambda r: f"contains({text_of(r)}, '{r.choice((*WORDS, code(r)[1:]))}')",
    "token": lambda r: (
        f"contains(concat(' ', {r.choice(('string(w[1])', 'string(w[last()])'))}, ' '), ' {r.choice(WORDS)} ')"
    ),
    "any case": lambda r: f"translate({text_of(r)}, '{UPPER}', '{LOWER}') = '{r.choice((*WORDS, code(r))).lower()}'",
    "trimmed": lambda r: f"normalize-space({text_of(r)}) = '{r.choice((*WORDS, phrase(r).strip()))}'",
    "cut": lambda r: f"substring({text_of(r)}, 1, 2) = '{r.choice((code(r)[:2], 'fl', 'st', ' w'))}'",
    "length": lambda r: f"string-length({text_of(r)}) {r.choice(('=', '>', '<'))} {r.randrange(20)}",
    "count": lambda r: (
        f"count({r.choice(('v', 'c', './/w', 'b', f'c[. = {code(r)!r}]', f'v[. > {number(r)}]'))}) "
        f"{r.choice(('=', '>', '>=', '<', '!='))} {r.randrange(4)}"
    ),
    "position": one_of(
        lambda r: f"c[{r.choice(('1', 'last()', '2', 'position() > 1'))}] = '{code(r)}'",
        lambda r: f"v[{r.choice(('1', 'last()', '2'))}] > {number(r)}",
        lambda r: f"{r.choice(('1', 'last()', 'position() < 3'))}][@k = '{code(r)}'",
        lambda r: f"@n > {number(r)}][{r.choice(('1', '2', 'last()'))}",
    ),
    "exists": one_of(lambda r: r.choice(("@k", "v", ".//w", "b/c", "@n and c")), lambda r: f"b[@k = '{code(r)}']"),
    "negation": one_of(
        lambda r: f"not({r.choice(('c', '@k', 'b/c'))} = '{code(r)}')",
        lambda r: f"not({_list(r)})",
        lambda r: f"not(@k = '{code(r)}') and not({_list(r)}) and not(@k = '{code(r)}' and c = '{code(r)}')",
        lambda r: f"not({r.choice(('v', '@n', 'b/v', 'count(c)'))} = {number(r)})",
        lambda r: f"not(name() = '{r.choice('ab')}') or not(@k)",
        lambda r: f"not(@k) and c = '{code(r)}'",
        lambda r: f"@n > {number(r)} and not(b[c = '{code(r)}' or v < {number(r)}])",
    ),
    "alternatives": lambda r: (
        f"@k = '{code(r)}' or v > {number(r)} and c = '{code(r)}' or contains(string(w[1]), '{r.choice(WORDS)}')"
    ),
    "above": one_of(
        lambda r: f"../@k = '{code(r)}' and @n > {number(r)}",
        lambda r: f"ancestor::*[@n > {number(r)}]/c = '{code(r)}'",
        lambda r: f"c = '{code(r)}'][../v {r.choice(('<', '>'))} {number(r)}",
    ),
    "beside": one_of(
        lambda r: f"c[. = '{code(r)}']/following-sibling::w[. = '{r.choice(WORDS)}']",
        lambda r: f"preceding-sibling::*[@k = '{code(r)}']",
        lambda r: f"w[. = '{r.choice(WORDS)}'][preceding-sibling::v[. > {number(r)}]]",
    ),
    "name": lambda r: f".//*[local-name() = '{r.choice('abcv')}'] = '{r.choice((code(r), number(r)))}'",
}


class Population:
    """A changing set of queries of one kind, with the oracle's compiled forms."""

    def __init__(self, kind: str, size: int, seed: int) -> None:
        self.random = random.Random(f"{seed} {kind} {size}")
        self.kind, self.size = kind, size
        self.subscriptions = SubscriptionSet()
        self.live: dict[str, etree.XPath] = {}

    def change(self) -> None:
        """Replaces some queries, or begins with all."""
        gone = self.random.sample(sorted(self.live), len(self.live) // 10 + bool(self.live))
        for query in gone:
            del self.live[query]
            self.subscriptions.remove(query)
        added = []
        # Kinds with few different queries have smaller populations.
        for _ in range(3 * (self.size - len(self.live))):
            if len(self.live) >= self.size:
                break
            query = f"{place(self.random)}[{CONDITIONS[self.kind](self.random)}]"
            if query not in self.live:
                self.live[query] = etree.XPath(query)
                added.append((query, query))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QueryWarning)
            assert not self.subscriptions.add_many(added).refused

    def messages(self, pairs: int) -> Iterator[str]:
        """Returns messages until so many pairs are compared, changing the set before each."""
        while pairs > 0:
            self.change()
            pairs -= len(self.live)
            yield message(self.random)

    def found(self, xml: str) -> set[str]:
        """Returns the queries that the product finds true."""
        match = self.subscriptions.match(xml)
        assert not match.undecided
        return set(match.keys)


@pytest.mark.slow
@pytest.mark.parametrize("size", POPULATIONS)
@pytest.mark.parametrize("kind", CONDITIONS)
def test_libxml2_says_the_same(kind: str, size: int) -> None:
    print(f"seed {SEED}")
    population, matched = Population(kind, size, SEED), 0
    for xml in population.messages(max(PAIRS // len(POPULATIONS), 3 * size)):
        tree = etree.fromstring(xml)
        wanted = {query for query, xpath in population.live.items() if xpath(tree)}
        found = population.found(xml)
        assert found == wanted, (xml, found ^ wanted)
        matched += len(found)
    assert matched > 0, "no query matched, so nothing was tested"


def _answers_alone(subscriptions: SubscriptionSet, query: str, messages: pa.Array) -> list[bool]:
    """Returns which messages match a query that replaces the only one of a set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        subscriptions.replace("q", query)
    answers = subscriptions.match_batch(messages)
    assert answers["undecided"].null_count == len(messages)
    return [bool(keys) for keys in answers["keys"].to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONDITIONS)
def test_libxml2_says_the_same_of_queries_alone(kind: str) -> None:
    print(f"seed {SEED}")
    r, compared, matched = random.Random(f"{SEED} {kind} alone"), 0, 0
    while compared < PAIRS:
        messages = [message(r) for _ in range(MESSAGES_ALONE)]
        trees = [etree.fromstring(xml) for xml in messages]
        subscriptions, column = SubscriptionSet(), pa.array(messages)
        for _ in range(QUERIES_ALONE):
            query = f"{place(r)}[{CONDITIONS[kind](r)}]"
            xpath = etree.XPath(f"boolean({query})")
            wanted = [xpath(tree) for tree in trees]
            found = _answers_alone(subscriptions, query, column)
            if found != wanted:
                different = next(xml for xml, a, b in zip(messages, found, wanted, strict=True) if a != b)
                pytest.fail(f"{query} on {different}")
            matched += sum(found)
            compared += len(messages)
    assert matched > 0, "no query matched, so nothing was tested"


@cache
def _saxon() -> object:
    """The oracle of this process: Saxon ends the process if another thread frees its processor, as a collector may."""
    saxonche = pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")
    return saxonche.PySaxonProcessor(license=False)


def _saxon_truths(xml: str, queries: Iterable[str]) -> set[str]:
    processor = _saxon()
    document = processor.parse_xml(xml_text=xml)  # type: ignore[attr-defined]
    asked, true = list(queries), set()
    for start in range(0, len(asked), SAXON_QUERIES):
        chunk = asked[start : start + SAXON_QUERIES]
        runner = processor.new_xquery_processor()  # type: ignore[attr-defined]
        runner.set_context(xdm_item=document)
        runner.set_query_content(f"string-join(({', '.join(f'string(exists({query}))' for query in chunk)}), ' ')")
        answers = runner.run_query_to_string().split("?>")[-1].split()
        assert len(answers) == len(chunk)
        true |= {query for query, answer in zip(chunk, answers, strict=True) if answer == "true"}
    return true


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONDITIONS)
def test_saxon_says_the_same(kind: str) -> None:
    print(f"seed {SEED}")
    population = Population(kind, SAXON_QUERIES, SEED + 1)
    for xml in population.messages(PAIRS // 3):
        wanted, found = _saxon_truths(xml, population.live), population.found(xml)
        assert found == wanted, (xml, found ^ wanted)
