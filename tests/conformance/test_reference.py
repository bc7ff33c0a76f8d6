"""The published algorithms, each on the queries that it takes: all of a message in one population."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, all_cases

pytestmark = pytest.mark.lab

PUBLISHED: Final = {"xpath/filtering.toml", "xpath/small_messages.toml"}
"""Files with queries of the publications: each algorithm takes all of them, but for the one without nested paths."""


def reason(case: Case) -> str | None:
    if case.error is not None or case.limits:
        return "messages are refused, and limited, before they reach an algorithm"
    if not case.is_plain or b"<!DOCTYPE" in case.message:
        return "the algorithms read plain messages"
    if any(query.dialect != "xpath" or query.is_flwr for query in case.queries):
        return "the algorithms take XPath"
    return no_answer(case)


@pytest.mark.parametrize("name", engines.reference_names())
def test_algorithm(name: str) -> None:
    run = Check(f"reference-{name}")
    by_message: dict[bytes, list[Case]] = defaultdict(list)
    for case in run.select(all_cases(), lambda case: reason(case) or outside(case)):
        by_message[case.message].append(case)
    for message, cases in by_message.items():
        queries = {
            f"{number} {query.key}": path
            for number, case in enumerate(cases)
            for query in case.accepted
            if (path := engines.reference_query(query)) is not None
        }
        algorithm, refused = engines.reference(name, queries)
        matched = algorithm.match(message)
        for number, case in enumerate(cases):
            asked = {query.key for query in case.accepted} & {
                key.partition(" ")[2] for key in queries.keys() - refused if key.startswith(f"{number} ")
            }
            assert case.matches is not None
            for key in asked:
                is_right = (f"{number} {key}" in matched) == (key in case.matches)
                run.add(case, [] if is_right else [f"{name} is wrong about {key}"])
            if not asked:
                assert name == "yfilter-inline" or case.file not in PUBLISHED, case.id
                run.skip(case, "the algorithm takes no nested paths")
    run.finish()


def outside(case: Case) -> str | None:
    """Whether no query of a case is in the language of the algorithms."""
    if any(engines.reference_query(query) is not None for query in case.accepted):
        return None
    assert case.file not in PUBLISHED, case.id
    return "the queries are outside the language of the algorithms"
