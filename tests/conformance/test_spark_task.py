"""What a task of the Spark pipeline does with an Arrow batch of messages, without Spark around it."""

from __future__ import annotations

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the pipeline needs PySpark")


def reason(case: Case) -> str | None:
    if case.undecided:
        return "the pipeline tells one failure of a message, not all"
    return no_answer(case)


def test_tasks() -> None:
    run = Check("spark-task")
    for group in groups(run, all_cases(), reason):
        messages = group.messages
        found = engines.spark_task(group.population(), messages)
        for case, answer in group.answers(dict(zip(messages, found, strict=True))):
            run.answer(case, answer)
    run.finish()
