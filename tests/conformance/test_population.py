"""All cases of one setting of namespaces in one set: who else is subscribed does not change an answer."""

from __future__ import annotations

from tests.conformance import engines
from tests.conformance.answers import Check
from tests.conformance.cases import Case, all_cases
from tests.conformance.groups import groups


def namespaces(case: Case) -> object:
    """The setting of a case: those of its first subscription."""
    return tuple(sorted(case.queries[0].namespaces.items())) if case.queries else ()


def test_together() -> None:
    run = Check("population")
    for group in groups(run, all_cases(), key=namespaces):
        population = group.population()
        asked = {message: engines.ask(population, message, group.located(message)) for message in group.messages}
        delivered = {message: engines.deliver(population, message) for message in group.messages}
        for answers in (asked, delivered):
            for case, answer in group.answers(answers):
                run.answer(case, answer)
    run.finish()
