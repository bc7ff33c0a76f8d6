"""For-Where-Return queries on the larger test data: every result is that of an XQuery processor."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.canonical import canonical, canonical_items
from twigcast import SubscriptionSet
from twigcast.errors import QueryWarning

FAMILIES = (
    "aviation cap cda feeds fpml iso20022 jats kml netconf newsml tei ubl wires xmpp".split()  # noqa: SIM905
)


def payload_of(query: str, message: str | bytes, namespaces: dict[str, str] | None = None) -> bytes | None:
    subscriptions = SubscriptionSet(namespaces=namespaces or {})
    subscriptions.add("q", query)
    deliveries = subscriptions.deliver(message.encode() if isinstance(message, str) else message)
    assert not deliveries.undecided
    matched = subscriptions.match(message.encode() if isinstance(message, str) else message).keys
    assert bool(deliveries) == (list(matched) == ["q"])
    return deliveries[0].payload if deliveries else None


@pytest.mark.filterwarnings(f"ignore::{QueryWarning.__module__}.{QueryWarning.__name__}")
def test_random_queries(shared_data: Path) -> None:
    """500 queries, each on its own message; nothing is delivered where no binding passes."""
    with gzip.open(shared_data / "flwr_cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    assert len(cases) == 500
    for case in cases:
        payload = payload_of(case["query"], case["doc"])
        if case["invocations"] == 0:
            assert payload is None, case["id"]
        else:
            assert payload is not None, case["id"]
            assert canonical(payload) == canonical_items(case["result"]), case["id"]


def test_examples(shared_data: Path) -> None:
    """The examples on the two use cases of the XQuery working group."""
    folder = shared_data / "usecases"
    for line in (folder / "examples.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        payload = payload_of(case["query"], (folder / case["doc_file"]).read_bytes())
        if payload is None:
            # An outer constructor is empty without bindings; then nothing is delivered.
            assert len(canonical_items(case["result"])) <= len("<sequence><results></results></sequence>")
        else:
            assert canonical(payload) == canonical_items(case["result"]), case["query"]


@pytest.mark.parametrize("family", FAMILIES)
def test_real_messages(shared_data: Path, family: str) -> None:
    """All subscriptions of a family at once, on each of its messages."""
    folder = shared_data / "real"
    subscriptions = SubscriptionSet()
    keys = set()
    for row in rows(folder / f"{family}.subscriptions.jsonl"):
        if row["kind"] == "flwr":
            subscriptions.add(row["key"], row["query"], namespaces=row["namespaces"])
            keys.add(row["key"])
    expected: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows(folder / f"{family}.expected.jsonl"):
        if row["key"] in keys:
            expected[row["message"]][row["key"]] = row["result"]
    assert keys
    assert expected
    for path in sorted((folder / family).glob("*.xml")):
        deliveries = subscriptions.deliver(path.read_bytes())
        assert not deliveries.undecided
        results = {delivery.key: delivery.payload for delivery in deliveries}
        assert set(results) == set(expected[path.name]), path.name
        for key, payload in results.items():
            assert canonical(payload) == canonical(expected[path.name][key]), (path.name, key)


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
