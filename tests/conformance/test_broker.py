"""A broker: all cases subscribed, all messages published, and every subscription pulled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow

pytest.importorskip("grpc", reason="the broker needs its extra")


def reason(case: Case) -> str | None:
    if case.limits:
        return "a broker has limits of its own"
    if case.undecided:
        return "failures are kept as errors, and not pulled"
    if any(query.key.encode() == b"" or "\0" in query.key for query in case.queries):
        return "a broker takes no such keys"
    return no_answer(case)


def test_publish_and_pull(tmp_path: Path) -> None:
    run = Check("broker")
    for group in groups(run, all_cases(), reason):
        messages = group.messages
        found = engines.broker(group.subscriptions, messages, tmp_path)
        for case, answer in group.answers(dict(zip(messages, found, strict=True))):
            run.answer(case, answer)
    run.finish()
