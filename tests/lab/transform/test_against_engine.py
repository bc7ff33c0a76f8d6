"""Every published plan against the engine: the same queries match, and their results are the same.

The tree that the plans work on (Diao 2005, section 6.3) has neither comments nor processing instructions, and they
choose prefixes of their own; so both sides are compared without the former and by expanded names.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from lxml import etree

from tests.canonical import expanded
from tests.integration.test_flwr_cases import rows
from twigcast import SubscriptionSet
from twigcast.errors import QueryWarning
from twigcast.lab.reference.language import OutsideFragment
from twigcast.lab.transform import Optimization, PathSharing, PlanSharing, Pushed, TransformQuery, transform_query
from twigcast.lab.workload import PRESETS, bundled_dtd, flwr_queries
from twigcast.query import parse
from twigcast.schema import ElementGraph

FAMILIES = (
    "aviation cap cda feeds fpml iso20022 jats kml netconf newsml tei ubl wires xmpp".split()  # noqa: SIM905
)
MESSAGES_PER_FAMILY = 3
BYTES_MAX = 60_000
"""The plans are to be read, not to be fast."""

pytestmark = pytest.mark.filterwarnings(f"ignore::{QueryWarning.__module__}.{QueryWarning.__name__}")


def plans(graph: ElementGraph | None = None) -> Iterator[PathSharing | PlanSharing]:
    levels = [level for level in Optimization if graph is not None or level is not Optimization.QUERY_AND_DTD]
    yield from (PathSharing(pushed, level, graph) for pushed in Pushed for level in levels)
    yield PlanSharing()
    if graph is not None:
        yield PlanSharing(graph)


def in_subset(query: str, namespaces: Mapping[str, str] | None = None) -> TransformQuery | None:
    """The query as the plans take it; ``None`` if the source's subset does not have it."""
    try:
        return transform_query(parse(query, namespaces=namespaces or {}))
    except OutsideFragment:
        return None


def plain(payload: str | bytes) -> str:
    """Elements and text alone, by expanded names."""
    text = payload.decode() if isinstance(payload, bytes) else payload
    parser = etree.XMLParser(remove_comments=True, remove_pis=True, resolve_entities=False)
    return expanded(etree.tostring(etree.fromstring(f"<all>{text}</all>", parser), encoding="unicode"))


def agree(
    queries: Mapping[str, str],
    messages: Sequence[bytes],
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    graph: ElementGraph | None = None,
) -> tuple[int, int]:
    """Compare all plans with the engine. How many queries took part, and how many results there were."""
    taken = {key: in_subset(text, (namespaces or {}).get(key)) for key, text in queries.items()}
    subscriptions = SubscriptionSet()
    matchers = list(plans(graph))
    for key, query in taken.items():
        if query is not None:
            subscriptions.add(key, queries[key], namespaces=(namespaces or {}).get(key))
            for matcher in matchers:
                matcher.add(key, query)
    results = 0
    for message in messages:
        expected = {delivery.key: plain(delivery.payload) for delivery in subscriptions.deliver(message)}
        results += len(expected)
        for matcher in matchers:
            matching = {key: plain(text) for key, text in matcher.transform(message).items()}
            assert matching == expected, f"{matcher!r} on {message[:2000]!r}"
    return len(subscriptions), results


@pytest.mark.parametrize("predicates", [0, 1, 2])
@pytest.mark.parametrize("name", ["library", "manual"])
def test_generated_queries(name: str, predicates: int) -> None:
    schema = bundled_dtd(name)
    preset = PRESETS[name]
    small = preset.__class__(preset.levels, 3, max_value=3, draw_sizes=False)
    texts = flwr_queries(schema, 60, 11, binding_depth=3, predicate_paths=predicates, descendant=0.3, max_value=3)
    queries = {str(number): text for number, text in enumerate(texts)}
    count, results = agree(queries, list(small.make(schema, 5, seed=5)), graph=ElementGraph(schema))
    assert count == 60
    assert results > 20


def test_shared_cases(shared_data: Path) -> None:
    """Each query on its own message: 340 of the 516 are in the subset of the source."""
    queries = results = 0
    for query, message in _cases(shared_data):
        taken, result = agree({"q": query}, [message])
        queries += taken
        results += result
    assert queries >= 340
    assert results > 200


@pytest.mark.parametrize("family", FAMILIES)
def test_real_messages(shared_data: Path, family: str) -> None:
    """The subscriptions of a family that are in the subset, all at once."""
    folder = shared_data / "real"
    subscriptions = [row for row in rows(folder / f"{family}.subscriptions.jsonl") if row["kind"] == "flwr"]
    paths = [path for path in sorted((folder / family).glob("*.xml")) if path.stat().st_size < BYTES_MAX]
    messages = [path.read_bytes() for path in paths[:MESSAGES_PER_FAMILY]]
    queries = {row["key"]: row["query"] for row in subscriptions}
    taken, _ = agree(queries, messages, {row["key"]: row["namespaces"] for row in subscriptions})
    assert taken > 0


def _cases(shared_data: Path) -> Iterator[tuple[str, bytes]]:
    with gzip.open(shared_data / "flwr_cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            yield case["query"], case["doc"].encode()
    folder = shared_data / "usecases"
    for case in rows(folder / "examples.jsonl"):
        yield case["query"], (folder / case["doc_file"]).read_bytes()
