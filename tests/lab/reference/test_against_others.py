"""The reference algorithms against the compiled engine, and on the answered cases beside the repository."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.reference.generator import KINDS, generated
from twigcast.lab.reference import ALGORITHMS, OutsideFragment
from twigcast.query import parse
from twigcast.subscriptions import SubscriptionSet


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_says_the_same(kind: str) -> None:
    engine, yfilter, bfilter = SubscriptionSet(), ALGORITHMS["yfilter"](), ALGORITHMS["bfilter"]()
    stored = False
    for queries, message in generated(kind, 31, population=300, messages=20):
        if not stored:
            stored = True
            engine.add_many([(key, str(query)) for key, query in queries.items()]).raise_if_refused()
            for key, query in queries.items():
                yfilter.add(key, query)
                bfilter.add(key, query)
        expected = set(engine.match(message).keys)
        assert yfilter.match(message) == expected, message
        assert bfilter.match(message) == expected, message


def cases(shared_data: Path, every: int) -> Iterator[dict[str, object]]:
    with gzip.open(shared_data / "xpath_cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            case = json.loads(line)
            if case["fragment"] != "full" and number % every == 0:
                yield case


def test_cases_with_answers(shared_data: Path) -> None:
    """Queries of the papers' fragments on namespaces, character references, CDATA sections and the like."""
    taken = dict.fromkeys(ALGORITHMS, 0)
    for case in cases(shared_data, every=3):
        namespaces = case["namespaces"]
        assert isinstance(namespaces, dict)
        query = parse(str(case["query"]), namespaces)
        for name, make in ALGORITHMS.items():
            algorithm = make()
            try:
                algorithm.add("Q", query)
            except OutsideFragment:
                continue
            taken[name] += 1
            assert bool(algorithm.match(str(case["doc"]).encode())) == case["boolean"], (name, case)
    assert min(count for name, count in taken.items() if name != "yfilter-inline") > 220, taken
