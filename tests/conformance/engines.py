"""The product as the runners ask it. Only this file names what is internal to the product."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.canonical import is_same_document
from tests.conformance.answers import Answer, error_of
from tests.conformance.cases import Case, CaseQuery, ExpectedError
from tests.conformance.locations import Locator
from tests.conformance.oracles import xpath
from twigcast import Limits, Node, Subscription, SubscriptionSet
from twigcast.arrow_types import MatchRow
from twigcast.errors import QueryError, QueryWarning, RejectedMessage, TwigcastError
from twigcast.query import parse

if TYPE_CHECKING:
    from twigcast.lab.reference import Algorithm, PathQuery


def empty_set(limits: Mapping[str, int] | None = None) -> SubscriptionSet:
    """A set without subscriptions."""
    return SubscriptionSet(limits=Limits(**(limits or {})))


def subscription(query: CaseQuery, key: str | None = None) -> Subscription:
    """A subscription of a case, under a key of its own or another."""
    return Subscription(key or query.key, query.query, dict(query.namespaces), query.dialect)


def add(population: SubscriptionSet, subscriptions: Iterable[Subscription]) -> list[tuple[str, TwigcastError]]:
    """Add subscriptions; the keys of those that were refused, with their errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        return [(refused.key, refused.error) for refused in population.add_many(list(subscriptions)).refused]


def set_of(case: Case) -> SubscriptionSet:
    """The set of a case's subscriptions that are accepted."""
    population = empty_set(case.limits)
    refused = add(population, map(subscription, case.accepted))
    assert not refused, refused
    return population


def locations(nodes: Sequence[Node], message: bytes) -> list[str]:
    """Nodes in words."""
    by_place = Locator(message).by_place
    return [by_place.get((node.kind, node.line, node.column), f"no such place: {node}") for node in nodes]


def ask(population: SubscriptionSet, message: bytes, keys: Iterable[str], *, plain: bytes | None = None) -> Answer:
    """Keys, node counts, and the nodes of some subscriptions; ``plain`` is the message that places refer to."""
    try:
        match = population.match(message)
    except RejectedMessage as error:
        return Answer(error=error_of(error))
    nodes = {key: locations(population.nodes(message, key), plain or message) for key in keys}
    undecided = {error.key: error.reason for error in match.undecided}
    return Answer(frozenset(match.keys), nodes, population.node_counts(message), undecided=undecided)


def deliver(population: SubscriptionSet, message: bytes) -> Answer:
    """Who gets what."""
    try:
        deliveries = population.deliver(message)
    except RejectedMessage as error:
        return Answer(error=error_of(error))
    payloads = {delivery.key: delivery.payload if delivery.rewritten else None for delivery in deliveries}
    for delivery in deliveries:
        assert delivery.rewritten or delivery.payload == message or is_same_document(delivery.payload, message)
    undecided = {error.key: error.reason for error in deliveries.undecided}
    return Answer(frozenset(payloads), payloads=payloads, undecided=undecided)


def batch(
    population: SubscriptionSet, messages: Sequence[bytes], *, threads: int = 1, rewrite: bool = False
) -> list[Answer]:
    """A batch, with node counts or payloads."""
    found = population.match_batch(
        pa.array(messages, pa.large_binary()), threads=threads, deliver=rewrite, nodes=not rewrite
    )
    return [_row(row, rewrite) for row in found.to_pylist()]


def _row(row: Mapping[str, Any], rewrite: bool) -> Answer:
    if row["error"] is not None:
        return Answer(error=_error(row["error"]))
    undecided = {item["key"]: item["reason"] for item in row["undecided"] or []}
    keys: list[str] = row["keys"]
    if rewrite:
        return Answer(frozenset(keys), payloads=dict(zip(keys, row["payloads"], strict=True)), undecided=undecided)
    return Answer(frozenset(keys), counts=dict(zip(keys, row["nodes"], strict=True)), undecided=undecided)


def _error(error: Mapping[str, Any]) -> ExpectedError:
    return ExpectedError(error["code"], error["line"], error["column"], None, error["reason"])


def grouped(population: SubscriptionSet, messages: Sequence[bytes]) -> list[Answer]:
    """A batch whose answers are groups of keys."""
    found = population.match_batch(pa.array(messages, pa.large_binary()), grouped=True)
    return [_grouped_row(row) for row in found.to_pylist()]


def _grouped_row(row: MatchRow) -> Answer:
    if row["error"] is not None:
        return Answer(error=_error(row["error"]))
    assert row["groups"] is not None
    return Answer(frozenset(key for group in row["groups"] for key in group))


def from_snapshot(population: SubscriptionSet, folder: Path) -> SubscriptionSet:
    """The same set, saved and loaded."""
    path = folder / "subscriptions"
    population.save(path)
    return SubscriptionSet.load(path, limits=population.limits)


def spark_task(population: SubscriptionSet, messages: Sequence[bytes]) -> list[Answer]:
    """What a task of the Spark pipeline makes of the messages of an Arrow batch."""
    from twigcast.spark.matching import BatchMatcher

    matcher = BatchMatcher(population._session, nodes=True)
    ids = [str(number) for number in range(len(messages))]
    columns = [pa.array(ids, pa.string()), pa.array(messages, pa.binary())]
    keys: dict[str, dict[str, int]] = defaultdict(dict)
    payloads: dict[str, dict[str, bytes | None]] = defaultdict(dict)
    rejected: dict[str, ExpectedError] = {}
    for answers in matcher.answers(pa.RecordBatch.from_arrays(columns, ["message_id", "xml"])):
        for matches in answers.matches():
            for row in matches.to_pylist():
                keys[row["message_id"]][row["key"]] = row["nodes"]
                payloads[row["message_id"]][row["key"]] = None
        for row in answers.deliveries().to_pylist():
            payloads[row["message_id"]][row["key"]] = row["payload"].encode()
        for row in answers.rejected().to_pylist():
            rejected[row["message_id"]] = ExpectedError("", row["line"], row["column"], None, row["reason"])
    return [
        Answer(error=rejected[id_])
        if id_ in rejected
        else Answer(frozenset(keys[id_]), counts=keys[id_], payloads=payloads[id_])
        for id_ in ids
    ]


def broker(subscriptions: Sequence[Subscription], messages: Sequence[bytes], folder: Path) -> list[Answer]:
    """What each subscription of a broker pulls after the messages were published."""
    from tests.broker.hub.hubs import TENANT, drain, publish_any, run, running, subscribe_many
    from twigcast.broker.errors import IdReused
    from twigcast.broker.model import Accepted, NewSubscription, Submission
    from twigcast.broker.store.store import open_store

    new = [
        NewSubscription(TENANT, each.key, each.query, each.namespaces, each.dialect or "xpath")
        for each in subscriptions
    ]

    async def play() -> list[Answer]:
        store = await asyncio.to_thread(open_store, str(folder / "store"))
        try:
            async with running(store) as hub:
                subscribed = await subscribe_many(hub, new)
                results = await publish_any(hub, *(Submission(TENANT, message) for message in messages))
                by_seq: dict[int, dict[str, bytes | None]] = {
                    result.seq: {} for result in results if isinstance(result, Accepted)
                }
                for each in subscribed:
                    for delivery in await drain(hub, each.queue_id):
                        by_seq[delivery.id.seq][delivery.key] = delivery.payload
                return [
                    Answer(frozenset(by_seq[result.seq]), payloads=by_seq[result.seq])
                    if isinstance(result, Accepted)
                    else Answer(error=ExpectedError(result.code, result.line, result.column, None, result.reason))
                    for result in results
                    # The messages have no ids that could be taken.
                    if not isinstance(result, IdReused)
                ]
        finally:
            store.close()

    return run(play(), seconds=300)


def renamed(each: Subscription, key: str) -> Subscription:
    """The same query under another key."""
    return replace(each, key=key)


def command_line(population: SubscriptionSet, messages: Sequence[bytes], folder: Path) -> list[tuple[Answer, Answer]]:
    """What the commands ``match`` and ``deliver`` tell of messages that are files."""
    from typer.testing import CliRunner

    from twigcast.cli import app

    folder.mkdir()
    names = [f"{number:05}.xml" for number in range(len(messages))]
    inbox = folder / "inbox"
    inbox.mkdir()
    for name, message in zip(names, messages, strict=True):
        (inbox / name).write_bytes(message)
    population.save(folder / "subscriptions")
    source = ["-s", str(folder / "subscriptions")]
    runner = CliRunner()
    matched = runner.invoke(app, ["match", *source, "--nodes", "--errors", "json", str(inbox)])
    delivered = runner.invoke(app, ["deliver", *source, "-o", "-", "--errors", "json", str(inbox)])
    for result in (matched, delivered):
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in {0, 1, 3}, result.output
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in map(json.loads, matched.stdout.splitlines()):
        counts[row["message"]][row["key"]] = row["nodes"]
    payloads: dict[str, dict[str, bytes | None]] = defaultdict(dict)
    for row in map(json.loads, delivered.stdout.splitlines()):
        payloads[row["message"]][row["key"]] = None if row["payload"] is None else row["payload"].encode()
    rejected: list[dict[str, ExpectedError]] = []
    undecided: dict[str, dict[str, str]] = defaultdict(dict)
    for output in (matched.stderr, delivered.stderr):
        # Warnings are sentences here, too, as those of the file of subscriptions are.
        rows = [json.loads(line) for line in output.splitlines() if not line.startswith("twigcast: warning: ")]
        rejected.append({row["message"]: _error(row) for row in rows if "key" not in row})
        for row in rows:
            if "key" in row:
                undecided[row["message"]][row["key"]] = row["reason"]
    return [
        (
            Answer(error=rejected[0][name])
            if name in rejected[0]
            else Answer(frozenset(counts[name]), counts=counts[name]),
            Answer(error=rejected[1][name])
            if name in rejected[1]
            else Answer(frozenset(payloads[name]), payloads=payloads[name], undecided=undecided[name]),
        )
        for name in names
    ]


def routing_misses(query: CaseQuery, message: bytes) -> str | None:
    """Why a message that matches a query would not be routed to whom asked for it; ``None`` where it is."""
    from twigcast.overlay.onyx.content.routing_query import routing_query

    routing = routing_query(query.query, dict(query.namespaces), query.dialect)
    for disjunct in routing:
        if all(xpath(message, path.text, dict(path.namespaces), locate=False).matches for path in disjunct.paths):
            return None
    return f"no disjunct holds: {[sorted(path.text for path in disjunct.paths) for disjunct in routing]}"


def reference_names() -> list[str]:
    """The published algorithms by name."""
    from twigcast.lab.reference import ALGORITHMS

    return list(ALGORITHMS)


def reference_query(query: CaseQuery) -> PathQuery | None:
    """A query as the reference algorithms take it; ``None`` if it is outside their language."""
    from twigcast.lab.reference import OutsideFragment, path_query

    try:
        return path_query(parse(query.query, query.namespaces))
    except (OutsideFragment, QueryError):
        return None


def reference(name: str, queries: Mapping[str, PathQuery]) -> tuple[Algorithm, set[str]]:
    """A reference algorithm with some queries, and the keys of those that it does not take."""
    from twigcast.lab.reference import ALGORITHMS, OutsideFragment

    algorithm, refused = ALGORITHMS[name](), set()
    for key, query in queries.items():
        try:
            algorithm.add(key, query)
        except OutsideFragment:
            refused.add(key)
    return algorithm, refused


def printed(query: CaseQuery) -> tuple[str, str | None]:
    """A query's text from its algebra, and why that is not the same query; ``None`` where it is."""
    namespaces = dict(query.namespaces)
    algebra = parse(query.query, namespaces, query.dialect)
    text = str(algebra)
    try:
        again = parse(text, namespaces)
    except QueryError as error:
        return text, f"is refused: {error.reason}"
    return text, None if again == algebra else "is another query"
