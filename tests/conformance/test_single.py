"""Each case by itself, through the public face: one message, matched and delivered."""

from __future__ import annotations

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, error_faults, error_of, no_answer
from tests.conformance.cases import Case, cases_of, files
from twigcast import check
from twigcast.errors import QueryError


@pytest.mark.parametrize("file", files())
def test_match_and_deliver(file: str) -> None:
    run = Check("single")
    for case in run.select(cases_of(file), no_answer):
        population = engines.set_of(case)
        run.answer(case, engines.ask(population, case.message, case.nodes))
        run.answer(case, engines.deliver(population, case.message))
    run.finish()


@pytest.mark.parametrize("file", files())
def test_refusals(file: str) -> None:
    """Queries that are refused are refused alike, added or only checked; those that are not are accepted."""
    run = Check("refusals")
    for case in run.select(cases_of(file)):
        population = engines.empty_set(case.limits)
        refused = dict(engines.add(population, map(engines.subscription, case.queries)))
        for query in case.refused:
            assert query.error is not None
            error = refused.pop(query.key, None)
            run.add(case, error_faults(query.error, None if error is None else error_of(error)))
        run.add(case, [f"{key} is refused: {error}" for key, error in refused.items()])
        if not case.limits:
            run.add(case, _checked(case))
    run.finish()


def _checked(case: Case) -> list[str]:
    faults = []
    for query in case.queries:
        try:
            check(query.query, namespaces=query.namespaces, dialect=query.dialect)
        except QueryError as error:
            if query.error is None:
                faults.append(f"{query.key} is refused by check: {error}")
            else:
                faults += error_faults(query.error, error_of(error))
        else:
            if query.error is not None and query.error.code.startswith("query"):
                faults.append(f"{query.key} is not refused by check")
    return faults
