"""The product as the runners ask it. Only this file names what is internal to the product."""

from __future__ import annotations

import asyncio
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from tests.conformance.answers import Answer, error_of
from tests.conformance.cases import Case, CaseQuery, ExpectedError
from tests.conformance.locations import Locator
from twigcast import Limits, Node, Subscription, SubscriptionSet
from twigcast.errors import QueryWarning, RejectedMessage, TwigcastError

COMPANY: Final = [("company 1", "//a/b"), ("company 2", "//*[@x]"), ("company 3", "/r[a]"), ("company 4", "//b[. = 1]")]


def empty_set(limits: Mapping[str, int] | None = None) -> SubscriptionSet:
    """A set without subscriptions."""
    return SubscriptionSet(limits=Limits(**(limits or {})))


def subscription(query: CaseQuery, key: str | None = None) -> Subscription:
    """A subscription of a case, under a key of its own or another."""
    return Subscription(key or query.key, query.query, dict(query.namespaces), query.dialect)  # type: ignore[arg-type]


def add(population: SubscriptionSet, subscriptions: Iterable[Subscription]) -> list[tuple[str, TwigcastError]]:
    """Add subscriptions; the keys of those that were refused, with their errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        return [(refused.key, refused.error) for refused in population.add_many(list(subscriptions))]


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
    return Answer(frozenset(match.keys), nodes, population.count_nodes(message), undecided=undecided)


def deliver(population: SubscriptionSet, message: bytes) -> Answer:
    """Who gets what."""
    try:
        deliveries = population.deliver(message)
    except RejectedMessage as error:
        return Answer(error=error_of(error))
    payloads = {delivery.key: delivery.payload if delivery.rewritten else None for delivery in deliveries}
    for delivery in deliveries:
        assert delivery.rewritten or delivery.payload == message
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


def _row(row: Mapping[str, list[object]], rewrite: bool) -> Answer:
    if row["error"] is not None:
        return Answer(error=_error(row["error"]))  # type: ignore[arg-type]
    undecided = {item["key"]: item["reason"] for item in row["undecided"] or []}  # type: ignore[index]
    keys: list[str] = row["keys"]  # type: ignore[assignment]
    if rewrite:
        payloads = dict(zip(keys, row["payloads"], strict=True))
        return Answer(frozenset(keys), payloads=payloads, undecided=undecided)  # type: ignore[arg-type]
    counts = dict(zip(keys, row["nodes"], strict=True))
    return Answer(frozenset(keys), counts=counts, undecided=undecided)  # type: ignore[arg-type]


def _error(error: Mapping[str, object]) -> ExpectedError:
    return ExpectedError(error["code"], error["line"], error["column"], None, error["reason"])  # type: ignore[arg-type]


def grouped(population: SubscriptionSet, messages: Sequence[bytes]) -> list[Answer]:
    """A batch whose answers are groups of keys."""
    found = population.match_batch(pa.array(messages, pa.large_binary()), grouped=True)
    return [
        Answer(error=_error(row["error"]))
        if row["error"] is not None
        else Answer(frozenset(key for group in row["groups"] for key in group))
        for row in found.to_pylist()
    ]


def from_snapshot(population: SubscriptionSet, folder: Path) -> SubscriptionSet:
    """The same set, saved and loaded."""
    path = folder / "subscriptions"
    population.save(path)
    return SubscriptionSet.load(path, limits=population.limits)


def spark_task(population: SubscriptionSet, messages: Sequence[bytes]) -> list[Answer]:
    """What a task of the Spark pipeline makes of the messages of an Arrow batch."""
    from twigcast.spark.matching import Matcher

    matcher = Matcher(population.engine, population.limits, nodes=True)
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
    from twigcast.broker.model import Accepted, NewSubscription, Submission
    from twigcast.broker.store.open import open_store

    new = [NewSubscription(TENANT, each.key, each.query, each.namespaces, each.dialect) for each in subscriptions]

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
                    for delivery in await drain(hub, each.lane_id):
                        by_seq[delivery.id.seq][delivery.key] = delivery.payload
                return [
                    Answer(frozenset(by_seq[result.seq]), payloads=by_seq[result.seq])
                    if isinstance(result, Accepted)
                    else Answer(error=ExpectedError(result.code, result.line, result.column, None, result.reason))
                    for result in results
                ]
        finally:
            store.close()

    return run(play(), seconds=300)


def renamed(each: Subscription, key: str) -> Subscription:
    """The same query under another key."""
    return replace(each, key=key)
