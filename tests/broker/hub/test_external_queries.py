"""Queries in XQuery: they follow the stored messages, and publishing does not wait for them."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.broker.hub.hubs import TENANT, drain, heard, publish, pull_within, run, running, subscribe
from tests.seeds import printed_seed
from twigcast.broker import options as options_module
from twigcast.broker.broker import Broker
from twigcast.broker.errors import Conflict, Invalid
from twigcast.broker.model import (
    DeliverySettings,
    NewSubscription,
    QueuedDelivery,
    StoredSubscription,
    SubscriptionState,
)
from twigcast.broker.store.store import Store
from twigcast.errors import QueryLimitExceeded
from twigcast.limits import Limits

pytestmark = pytest.mark.skipif(importlib.util.find_spec("saxonche") is None, reason="Saxon is not installed")

SUMS = """for $item in /order/item group by $shop := $item/@shop
          order by $shop return <sum shop='{$shop}'>{ sum($item/price) }</sum>"""
SLOW = "for $n in /order/slow return count(for $i in 1 to 100000, $j in 1 to 1000000 where $i * $j mod 7 = 3 return 1)"
WRONG = "for $item in /order/item let $number := function($n as xs:integer) { $n } return $number($item/@shop)"


def order(*prices: tuple[str, int], more: str = "") -> str:
    items = [f'<item shop="{shop}"><price>{n}</price></item>' for shop, n in prices]
    return f"<order>{''.join(items)}{more}</order>"


async def bodies(broker: Broker, subscription: StoredSubscription, count: int) -> list[bytes]:
    """The first bodies that it gets, pulled and acknowledged."""
    results: list[QueuedDelivery] = []
    while len(results) < count:
        some = await broker.pull(subscription.queue_id, limit=100, wait=30, visibility=60)
        await broker.acknowledge(subscription.queue_id, [delivery.id for delivery in some])
        results += some
    return [delivery.body for delivery in results]


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_what_a_query_in_xquery_finds_is_delivered_in_order(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            plain = await subscribe(broker, "plain", "/order")
            accepted = await publish(broker, order(("a", 3), ("b", 1), ("a", 4)), "<other/>", order(("c", 2)))
            assert [a.matches for a in accepted] == [1, 0, 1], "those that have to be told at once"
            assert await bodies(broker, sums, 2) == [
                b'<sum shop="a">7</sum><sum shop="b">1</sum>',
                b'<sum shop="c">2</sum>',
            ]
            assert len(await drain(broker, plain.queue_id)) == 2
            listening = asyncio.create_task(heard(broker, sums.queue_id, 2))
            await publish(broker, order(("d", 5)))
            await publish(broker, order(("e", 6)))
            assert [d.body for d in await listening] == [b'<sum shop="d">5</sum>', b'<sum shop="e">6</sum>']
            assert len(broker.store.errors(sums.id, 10)) == 0

    run(play(), 120)


def test_what_was_published_before_a_stop_is_looked_at_after_it(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            await publish(broker, *(order(("a", n)) for n in range(20)))
        async with running(store) as broker:
            await publish(broker, order(("a", 20)))
            requested = [f'<sum shop="a">{n}</sum>'.encode() for n in range(21)]
            assert await bodies(broker, sums, 21) == requested

    run(play(), 120)


def test_one_that_takes_too_long_or_fails_concerns_itself_alone(store: Store) -> None:
    async def play() -> None:
        async with running(store, xquery_seconds_max=1.0) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            slow = await subscribe(broker, "slow", SLOW, dialect="xquery")
            wrong = await subscribe(broker, "wrong", WRONG, dialect="xquery")
            (accepted,) = await publish(broker, order(("a", 1), more="<slow/>"))
            assert not broker.store.errors(slow.id, 10), "the publisher has not waited"
            await publish(broker, order(("2", 1)))
            assert await bodies(broker, sums, 2) == [b'<sum shop="a">1</sum>', b'<sum shop="2">1</sum>']
            assert await bodies(broker, wrong, 1) == [b"2"]
            await until(lambda: broker.store.errors(slow.id, 10) and broker.store.errors(wrong.id, 10))
            (too_long,), (failed,) = broker.store.errors(slow.id, 10), broker.store.errors(wrong.id, 10)
            assert too_long.seq == failed.seq == accepted.seq
            assert "longer than 1 seconds" in too_long.reason
            assert "FORG0001" in failed.reason
            assert not broker.store.errors(sums.id, 10)
            assert broker.metrics.undecided == 2

    run(play(), 120)


def test_what_comes_during_a_pause_does_not_count(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            await publish(broker, order(("a", 1)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">1</sum>']
            await broker.set_state(sums, SubscriptionState.PAUSED)
            await publish(broker, order(("a", 2)))
            await broker.set_state(sums, SubscriptionState.ACTIVE)
            await publish(broker, order(("a", 3)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">3</sum>']
            await broker.set_state(sums, SubscriptionState.PAUSED)
        async with running(store) as broker:
            await publish(broker, order(("a", 4)))
            await broker.set_state(sums, SubscriptionState.ACTIVE)
            await publish(broker, order(("a", 5)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">5</sum>']
            assert await drain(broker, sums.queue_id) == []

    run(play(), 120)


def test_what_came_before_a_pause_counts_although_it_was_not_looked_at_yet(store: Store) -> None:
    def sums_of(*numbers: int) -> list[bytes]:
        return [f'<sum shop="a">{n}</sum>'.encode() for n in numbers]

    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            with held_up(broker):
                await publish(broker, *(order(("a", n)) for n in (1, 2, 3)))
                await broker.set_state(sums, SubscriptionState.PAUSED)
                await publish(broker, order(("a", 4)))
            # Others would have these in their lanes by now, too.
            assert await bodies(broker, sums, 3) == sums_of(1, 2, 3)
            with held_up(broker):
                await broker.set_state(sums, SubscriptionState.ACTIVE)
                await publish(broker, order(("a", 5)))
                await broker.set_state(sums, SubscriptionState.PAUSED)
                await broker.set_state(sums, SubscriptionState.ACTIVE)
                await publish(broker, order(("a", 6)))
                await broker.set_state(sums, SubscriptionState.PAUSED)
                await publish(broker, order(("a", 7)))
                await broker.set_state(sums, SubscriptionState.ACTIVE)
                await publish(broker, order(("a", 8)))
            assert await bodies(broker, sums, 3) == sums_of(5, 6, 8)
            await until(lambda: store.pauses(sums.id) == [])
            assert await drain(broker, sums.queue_id) == []

    run(play(), 120)


@contextmanager
def held_up(broker: Broker) -> Iterator[None]:
    """Nobody who follows comes further meanwhile."""
    go_on = threading.Event()
    broker._evaluations.thread.submit(TENANT, lambda: not go_on.wait())
    try:
        yield
    finally:
        go_on.set()


def test_random_pauses_and_restarts_lose_and_add_nothing(store: Store) -> None:
    seed = printed_seed()
    source = random.Random(seed)
    requested: list[bytes] = []
    state = SubscriptionState.ACTIVE

    async def live(numbers: range) -> None:
        nonlocal state
        async with running(store) as broker:
            sums = store.subscription(TENANT, "sums") or await subscribe(broker, "sums", SUMS, dialect="xquery")
            for number in numbers:
                if source.random() < 0.35:
                    state = source.choice([SubscriptionState.ACTIVE, SubscriptionState.PAUSED])
                    await broker.set_state(sums, state)
                await publish(broker, order(("a", number)))
                if state is SubscriptionState.ACTIVE:
                    requested.append(f'<sum shop="a">{number}</sum>'.encode())
                if source.random() < 0.2:
                    await asyncio.sleep(source.uniform(0, 0.02))
            if numbers.stop == 120:
                assert await bodies(broker, sums, len(requested)) == requested
                assert await drain(broker, sums.queue_id) == []

    for first in range(0, 120, 40):
        run(live(range(first, first + 40)), 120)


def test_a_subscription_paused_by_an_older_broker_goes_on_with_what_comes(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            await broker.set_state(sums, SubscriptionState.PAUSED)
            await publish(broker, order(("a", 1)))
            await broker.change(lambda transaction: transaction.forget_pauses(sums.id))
            await broker.set_state(sums, SubscriptionState.ACTIVE)
            await publish(broker, order(("a", 2)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">2</sum>']

    run(play(), 120)


def test_pauses_go_with_their_subscription(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            await broker.set_state(sums, SubscriptionState.PAUSED)
            assert len(store.pauses(sums.id)) == 1
            await broker.unsubscribe(sums)
            assert store.pauses(sums.id) == []

    run(play(), 120)


def test_another_query_and_another_dialect(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            plain = await subscribe(broker, "plain", "/order")
            await publish(broker, order(("a", 1)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">1</sum>']
            settings = DeliverySettings()
            counted = "for $o in /order return <n>{ count(distinct-values($o/item/@shop)) }</n>"
            await broker.replace(sums, query=counted, namespaces={}, dialect="xquery", delivery=settings)
            await publish(broker, order(("a", 1), ("b", 1), ("a", 1)))
            assert await bodies(broker, sums, 1) == [b"<n>2</n>"]
            for subscription, dialect in ((sums, "xpath"), (plain, "xquery")):
                with pytest.raises(Conflict, match="dialect"):
                    await broker.replace(subscription, query="/a", namespaces={}, dialect=dialect, delivery=settings)
            await broker.unsubscribe(sums)
            await publish(broker, order(("a", 1)))
            assert store.subscription(TENANT, "sums") is None

    run(play(), 120)


def test_the_past_and_the_subscriber(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            first, *_ = await publish(broker, *(order(("a", n)) for n in range(3)))
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery", replay_from=first.seq + 1)
            await publish(broker, order(("a", 3)))
            assert await bodies(broker, sums, 3) == [f'<sum shop="a">{n}</sum>'.encode() for n in (1, 2, 3)]
            await subscribe(broker, "desk", "/order")
            (refused,) = await broker.subscribe(
                [NewSubscription(TENANT, "more", SUMS, dialect="xquery", subscriber="desk")]
            )
            assert isinstance(refused, Conflict)
            assert "XQuery" in str(refused)

    run(play(), 120)


def test_nobody_joins_the_subscriber_of_a_query_in_xquery(store: Store) -> None:
    """As what others get would wait for it, and not come at all while it is paused."""

    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            joining = NewSubscription(TENANT, "plain", "/order", subscriber="sums")
            (refused,) = await broker.subscribe([joining])
            assert isinstance(refused, Conflict)
            assert "XQuery" in str(refused)
            await broker.set_state(sums, SubscriptionState.PAUSED)
            (refused,) = await broker.subscribe([joining])
            assert isinstance(refused, Conflict)
            together = [
                NewSubscription(TENANT, "more", SUMS, dialect="xquery"),
                NewSubscription(TENANT, "less", "/order", subscriber="more"),
            ]
            accepted, refused = await broker.subscribe(together)
            assert isinstance(accepted, StoredSubscription)
            assert isinstance(refused, Conflict)
            await broker.unsubscribe(sums)
            assert isinstance((await broker.subscribe([joining]))[0], StoredSubscription)

    run(play(), 120)


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_follower_ends_with_its_subscription(store: Store, is_paused: bool) -> None:
    """Without waiting for another message; and it is no replay that is under way."""

    def followers() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("replay-")]

    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            await publish(broker, order(("a", 1)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">1</sum>']
            assert followers() == [f"replay-{sums.id}"]
            assert broker.metrics.replays == 0
            if not is_paused:
                await broker.unsubscribe(sums)
                await until(lambda: not followers())
                return
            await broker.set_state(sums, SubscriptionState.PAUSED)
            await until(lambda: not followers())
            await broker.set_state(sums, SubscriptionState.ACTIVE)
            await broker.set_state(sums, SubscriptionState.PAUSED)
            await broker.set_state(sums, SubscriptionState.ACTIVE)
            await publish(broker, order(("a", 2)))
            assert await bodies(broker, sums, 1) == [b'<sum shop="a">2</sum>']

    run(play(), 120)


@pytest.mark.parametrize("query", ["doc('file:///etc/passwd')", "for $a in", "(1 to 3)[", "java:exit(1)"])
def test_a_query_that_is_none_is_refused(store: Store, query: str) -> None:
    async def play() -> None:
        async with running(store) as broker:
            (refused,) = await broker.subscribe([NewSubscription(TENANT, "k", query, dialect="xquery")])
            assert getattr(refused, "code", "").startswith("query-"), refused
            assert store.subscription(TENANT, "k") is None

    run(play(), 120)


@pytest.mark.parametrize("namespaces", [{"p": ""}, {"xml": "urn:x"}, {"xmlns": "urn:x"}])
def test_namespaces_that_cannot_be_used_are_refused(store: Store, namespaces: dict[str, str]) -> None:
    async def play() -> None:
        async with running(store) as broker:
            (refused,) = await broker.subscribe([NewSubscription(TENANT, "k", "//a", namespaces)])
            assert "prefix" in str(refused), refused
            assert store.subscription(TENANT, "k") is None

    run(play(), 120)


def test_it_keeps_to_the_limit_of_the_tenant(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await broker.change(lambda transaction: transaction.set_tenant_limits(TENANT, {"pending_max": 4}))
            await broker.tenants_changed()
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            await publish(broker, order(("a", 0)))
            assert len(await bodies(broker, sums, 1)) == 1
            with held_up(broker):
                await publish(broker, *(order(("a", n)) for n in range(29)))
            await until(lambda: store.pending_count(sums.queue_id))
            got = await pull_within(broker, sums.queue_id, 29, 4)
            assert [delivery.id.seq for delivery in got] == list(range(2, 31))

    run(play(), 120)


def test_without_saxon_it_is_refused_and_what_is_stored_is_suspended(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "sums", SUMS, dialect="xquery")
        monkeypatch.setattr(options_module, "SAXON", "no_such_module")
        async with running(store) as broker:
            result = store.subscription(TENANT, "sums")
            assert result is not None
            assert result.state is SubscriptionState.SUSPENDED
            assert "twigcast[xquery]" in (result.reason or "")
            (refused,) = await broker.subscribe([NewSubscription(TENANT, "more", SUMS, dialect="xquery")])
            assert isinstance(refused, Invalid)
            assert "twigcast[xquery]" in str(refused)
            await publish(broker, order(("a", 1)))
        monkeypatch.undo()
        async with running(store) as broker:
            await broker.set_state(result, SubscriptionState.ACTIVE)
            await publish(broker, order(("a", 2)))
            assert await bodies(broker, result, 1) == [b'<sum shop="a">2</sum>']

    run(play(), 120)


def test_one_over_limits_that_are_lower_now_is_suspended_at_start_and_loses_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with running(store) as broker:
            sums = await subscribe(broker, "sums", SUMS, dialect="xquery")
            paused = await subscribe(broker, "paused", SUMS, dialect="xquery")
            short = await subscribe(broker, "short", "count(/order)", dialect="xquery")
            await publish(broker, order(("a", 1)))
            await broker.set_state(paused, SubscriptionState.PAUSED)
        async with running(store, limits=Limits(query_bytes_max=len(SUMS) - 1)) as broker:
            result = store.subscription(TENANT, "sums")
            assert result is not None
            assert result.state is SubscriptionState.SUSPENDED
            assert any("query_bytes_max" in record.reason for record in store.errors(sums.id, 10))
            await publish(broker, order(("b", 2)))
            assert len(await bodies(broker, short, 2)) == 2, "the others go on"
            with pytest.raises(QueryLimitExceeded):
                await broker.set_state(result, SubscriptionState.ACTIVE)
            refused = await broker.subscribe([NewSubscription(TENANT, "more", SUMS, dialect="xquery")])
            assert isinstance(refused[0], QueryLimitExceeded)
            assert store.subscription(TENANT, "more") is None
        assert not [record for record in caplog.records if record.exc_info]
        async with running(store) as broker:
            result = store.subscription(TENANT, "sums")
            assert result is not None
            await broker.set_state(result, SubscriptionState.ACTIVE)
            await publish(broker, order(("c", 3)))
            assert await bodies(broker, sums, 2) == [b'<sum shop="a">1</sum>', b'<sum shop="c">3</sum>']
            assert await bodies(broker, paused, 1) == [b'<sum shop="a">1</sum>']

    run(play(), 120)
