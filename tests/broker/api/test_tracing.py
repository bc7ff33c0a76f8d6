"""Traces: off by default; publish, commit and hand-over when they are on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.broker.api.running import Party
from twigcast.broker.tracing import tracing


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    result = InMemorySpanExporter()
    tracing.start(result)
    yield result
    tracing.stop()


def test_they_are_off_by_default(party: Party) -> None:
    assert not tracing.is_on
    party.publish("<a/>")


def test_spans_of_a_message(party: Party, exporter: InMemorySpanExporter) -> None:
    party.subscribe("k", "/a")
    party.publish("<a/>")
    party.pull("k")
    tracing.flush()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"publish", "commit", "hand-over"}
    publish, commit, hand_over = spans["publish"], spans["commit"], spans["hand-over"]
    assert commit.parent is not None
    assert commit.parent.span_id == publish.context.span_id
    assert publish.attributes is not None
    assert (publish.attributes["twigcast.accepted"], publish.attributes["twigcast.matches"]) == (1, 1)
    assert [link.context.span_id for link in hand_over.links] == [publish.context.span_id]
    assert publish.resource.attributes["service.name"] == "twigcast"
