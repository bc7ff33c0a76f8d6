"""Routing queries of ONYX: a message that matches a query satisfies the routing query, so none is lost on its way."""

from __future__ import annotations

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, cases_of, files


def reason(case: Case) -> str | None:
    if case.error is not None:
        return "the message is refused before it is routed"
    if case.limits:
        return "limits are those of a set, which routing queries do not have"
    if "lxml" in case.skip:
        return "libxml2 judges here, and departs from what is expected or cannot read the message"
    if not case.matches:
        return no_answer(case) or "nothing matches, so nothing can be missed"
    return None


@pytest.mark.parametrize("file", files())
def test_no_message_is_missed(file: str) -> None:
    run = Check("onyx-routing")
    for case in run.select(cases_of(file), reason):
        for query in case.accepted:
            if query.key in (case.matches or ()):
                missed = engines.routing_misses(query, case.message)
                run.add(case, [f"{query.key}: {missed}"] if missed else [])
    run.finish()
