"""Queries as data: what is read and printed again is the same query, and has the same answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, CaseQuery, all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow


def reason(case: Case) -> str | None:
    return "reading queries as data has no limits" if case.limits else no_answer(case)


def test_printed_queries() -> None:
    run = Check("query-text")
    for group in groups(run, all_cases(), reason):
        group.cases = [
            replace(case, queries=tuple(again(run, case, query) for query in case.accepted)) for case in group.cases
        ]
        population = group.population()
        asked = {message: engines.ask(population, message, group.located(message)) for message in group.messages}
        delivered = {message: engines.deliver(population, message) for message in group.messages}
        for answers in (asked, delivered):
            for case, answer in group.answers(answers):
                run.answer(case, answer)
    run.finish()


def again(run: Check, case: Case, query: CaseQuery) -> CaseQuery:
    text, fault = engines.printed(query)
    run.add(case, [f"{query.query!r} prints as {text!r}, which {fault}"] if fault else [])
    return query if fault else replace(query, query=text, dialect="xpath")
