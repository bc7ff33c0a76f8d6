"""All cases of one setting of namespaces in one set: who else is subscribed does not change an answer."""

from __future__ import annotations

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check
from tests.conformance.cases import Case, all_cases
from tests.conformance.groups import groups


def namespaces(case: Case) -> str:
    """The setting of a case: the namespaces of its first subscription."""
    return " ".join(f"{prefix}={uri}" for query in case.queries[:1] for prefix, uri in sorted(query.namespaces.items()))


@pytest.mark.parametrize("setting", sorted({namespaces(case) for case in all_cases()}))
def test_together(setting: str) -> None:
    run = Check("population")
    for group in groups(run, (case for case in all_cases() if namespaces(case) == setting)):
        population = group.population()
        asked = {message: engines.ask(population, message, group.located(message)) for message in group.messages}
        delivered = {message: engines.deliver(population, message) for message in group.messages}
        for answers in (asked, delivered):
            for case, answer in group.answers(answers):
                run.answer(case, answer)
    run.finish()
