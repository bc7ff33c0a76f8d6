"""The larger collections of cases beside the repository, where they are: every answer is checked.

Answers were computed with other engines (libxml2, Saxon); the READMEs of the collections say how.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from twigcast.errors import (
    MalformedMessage,
    QuerySyntaxError,
    QueryWarning,
    RejectedMessage,
    TwigcastError,
    UnsupportedQuery,
)
from twigcast.subscriptions import SubscriptionSet

FAMILIES = [
    "aviation",
    "cap",
    "cda",
    "feeds",
    "fpml",
    "iso20022",
    "jats",
    "kml",
    "netconf",
    "newsml",
    "tei",
    "ubl",
    "wires",
    "xmpp",
]

NOT_YET: dict[str, str] = {}
"""Public cases that fail today, with the reason. One that passes must leave the list."""

ERRORS: dict[str, type[TwigcastError]] = {
    "message-malformed": MalformedMessage,
    "message-entity-limit": RejectedMessage,
    "subscription-syntax": QuerySyntaxError,
}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, compressed or not."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    for line in text.decode().splitlines():
        yield json.loads(line)


def test_random_xpath_cases(shared_data: Path) -> None:
    by_namespaces = defaultdict(list)
    for case in lines(shared_data / "xpath_cases.jsonl.gz"):
        by_namespaces[tuple(sorted(case["namespaces"].items()))].append(case)
    checked = 0
    for namespaces, cases in by_namespaces.items():
        # All queries together against each message: the answers must not depend on who else is subscribed.
        subscriptions = SubscriptionSet(namespaces=dict(namespaces))
        subscriptions.add_many((str(number), case["query"]) for number, case in enumerate(cases)).raise_if_refused()
        for number, case in enumerate(cases):
            xml, key = case["doc"].encode(), str(number)
            assert (key in subscriptions.match(xml)) == case["boolean"], case
            if case["nodes"] is not None:
                assert len(subscriptions.nodes(xml, key)) == case["nodes"], case
            checked += 1
    assert checked == 3_000


def path_subscriptions(shared_data: Path, family: str) -> SubscriptionSet:
    """The XPath subscriptions to a family of real messages."""
    queries = [s for s in lines(shared_data / "real" / f"{family}.subscriptions.jsonl") if s["kind"] == "xpath"]
    subscriptions = SubscriptionSet()
    subscriptions.add_many((s["key"], s["query"], s["namespaces"]) for s in queries).raise_if_refused()
    return subscriptions


@pytest.mark.parametrize("family", FAMILIES)
def test_real_messages(shared_data: Path, family: str) -> None:
    subscriptions = path_subscriptions(shared_data, family)
    expected: dict[str, dict[str, int]] = defaultdict(dict)
    for answer in lines(shared_data / "real" / f"{family}.expected.jsonl"):
        if "nodes" in answer:
            expected[answer["message"]][answer["key"]] = answer["nodes"]
    paths = sorted((shared_data / "real" / family).glob("*.xml"))
    assert paths
    for path in paths:
        assert subscriptions.node_counts(path) == expected[path.name], path.name


@pytest.mark.parametrize("family", FAMILIES)
def test_more_real_messages_as_libxml2(shared_data: Path, family: str) -> None:
    subscriptions = path_subscriptions(shared_data, family)
    plain = etree.XMLParser(no_network=True, huge_tree=True)
    with_defaults = etree.XMLParser(no_network=True, huge_tree=True, attribute_defaults=True)
    queries = {
        key: etree.XPath(f"count({subscriptions[key].query})", namespaces=dict(subscriptions[key].namespaces))
        for key in subscriptions
    }
    paths = sorted((shared_data / "real_more" / family).glob("*.xml"))
    assert paths
    for path in paths:
        # libxml2 adds attribute defaults only when it may read external DTDs as well, which not every message has.
        tree = etree.parse(path, with_defaults if b"<!ATTLIST" in path.read_bytes() else plain)
        expected = {key: int(count(tree)) for key, count in queries.items()}
        assert subscriptions.node_counts(path) == {key: nodes for key, nodes in expected.items() if nodes}, path.name


def public_cases(shared_data: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((shared_data / "cases").glob("*.json"))]


def canonical(xml: str) -> bytes:
    """The nodes of a sequence, as canonical XML."""
    return etree.tostring(etree.fromstring(f"<sequence>{xml}</sequence>"), method="c14n2")


def part(case: dict[str, Any], name: str) -> Any:
    """A part of a case, which large ones give as an expression."""
    return case[name] if name in case else eval(case[f"{name}_expr"], {"__builtins__": {"range": range}})


def outcome(case: dict[str, Any]) -> str:
    """What the engine makes of a public case, in the words of the case."""
    message = part(case, "message")
    xml = message if isinstance(message, bytes) else message.encode(case.get("message_encoding", "utf-8"))
    subscriptions = SubscriptionSet(namespaces=case["namespaces"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        try:
            subscriptions.add("q", part(case, "subscription"))
            match = subscriptions.match(xml)
            if case["dialect"] == "flwr":
                payloads = subscriptions.deliver(xml)
                return f"result:{payloads[0].payload.decode()}" if payloads else "no match"
        except UnsupportedQuery:
            raise
        except tuple(ERRORS.values()) as error:
            if "entity_amplification_max" in str(error):
                return "error:message-entity-limit"
            if "is external (SYSTEM" in str(error):
                return "error:message-external-entity"
            return next(f"error:{kind}" for kind, expected in ERRORS.items() if isinstance(error, expected))
    return "match" if match else "no match"


def is_as_expected(case: dict[str, Any]) -> bool:
    """Whether the engine gives the answer of a public case."""
    expected = case["expect"]
    try:
        result = outcome(case)
    except UnsupportedQuery as error:
        result = f"refused: {error}"
    if expected.startswith("result:") and result.startswith("result:"):
        return canonical(result.removeprefix("result:")) == canonical(expected.removeprefix("result:"))
    return bool(result == expected)


def test_public_cases(shared_data: Path, subtests: pytest.Subtests) -> None:
    for case in public_cases(shared_data):
        with subtests.test(case["id"]):
            if case["id"] in NOT_YET:
                assert not is_as_expected(case), f"{case['id']} passes now: take it from the list"
            else:
                assert is_as_expected(case), (outcome(case), case)


def nitf_documents(shared_data: Path) -> list[bytes]:
    """The benchmark's documents, in the order of their names."""
    documents = {}
    with tarfile.open(shared_data / "nitf" / "nitf-500.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                documents[member.name] = content.read()
    return [documents[name] for name in sorted(documents)]


@pytest.mark.slow
def test_nitf_totals(shared_data: Path, subtests: pytest.Subtests) -> None:
    messages = pa.array(nitf_documents(shared_data), pa.large_binary())
    totals = json.loads((shared_data / "nitf" / "expected_totals.json").read_text())
    assert len(totals) > 20
    for name, expected in totals.items():
        with subtests.test(name):
            text = gzip.decompress((shared_data / "nitf" / "queries" / name).read_bytes()).decode()
            queries = text.splitlines()[: expected["queries"]]
            subscriptions = SubscriptionSet()
            subscriptions.add_many((str(number), query) for number, query in enumerate(queries)).raise_if_refused()
            batch = subscriptions.match_batch(messages, nodes=True)
            documents_per_query = [0] * len(queries)
            for key in batch.column("keys").flatten().to_pylist():
                documents_per_query[int(key)] += 1
            assert sum(documents_per_query) == expected["matching_pairs"]
            assert sum(batch.column("nodes").flatten().to_pylist()) == expected["matching_nodes"]
            assert sum(map(bool, documents_per_query)) == expected["queries_matching_some_document"]
            digest = hashlib.sha256(",".join(map(str, documents_per_query)).encode()).hexdigest()
            assert digest == expected["sha256_of_documents_matched_per_query"]
