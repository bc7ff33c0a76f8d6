"""Hub and overlay together, around a node that floods: what is published, received, stored, asked for again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import pytest

from tests.broker.hub.hubs import drain, publish, run, subscribe
from tests.broker.overlay.flooding import FloodingNode
from tests.broker.overlay.overlays import NewStore, Part, part, until
from twigcast.broker.errors import Conflict, StoreUnavailable
from twigcast.broker.model import Origin, SubscriptionState, Tenant
from twigcast.broker.store.store import Transaction
from twigcast.overlay.core import Effects
from twigcast.overlay.onyx.messages import Disjunct, OverlayMessage, Span

MESSAGE = "<feed><item n='{}'/></feed>"


def test_what_is_published_at_one_is_delivered_at_all_and_kept_where_it_is_wanted(new_store: NewStore) -> None:
    async def work() -> None:
        stores = [new_store(name) for name in "abc"]
        async with part(stores[0], "a") as a, part(stores[1], "b", a.target) as b, part(stores[2], "c", b.target) as c:
            await until(lambda: len(b.node.links) == 2 and c.node.links)
            here = await subscribe(a.broker, "at-a", "//item")
            there = await subscribe(c.broker, "at-c", "//item[@n > 4]")
            await publish(a.broker, *(MESSAGE.format(n) for n in range(10)), source="feed")
            await until(lambda: c.node.stored_horizons.get(a.node.address) == 10)
            assert len(await drain(a.broker, here.queue_id)) == 10
            delivered = await drain(c.broker, there.queue_id)
            assert [d.message.xml.decode() for d in delivered] == [MESSAGE.format(n) for n in range(5, 10)]
            assert {d.message.source for d in delivered} == {"feed"}
            # b has no subscription: it has passed everything on and kept nothing.
            assert stores[1].statistics().messages == 0
            assert stores[2].statistics().messages == 5
            number = a.node.address
            assert stores[2].overlay_origin(delivered[0].message.seq) == Origin(number, 6, (number,))
            assert stores[2].overlay_roots()[number].horizon == 10
            report = await c.overlay.report()
            assert (report.received.stored, report.received.unwanted) == (5, 5)
            assert [link.name for link in report.links] == ["b"]
            assert (report.name, report.interests_waiting, report.wide_scopes) == ("c", 0, frozenset())
            await until(lambda: {root.name for root in stores[2].overlay_roots().values()} >= {"b"})

    run(work())


class Repeating(FloodingNode):
    """Sends its first message with its second only, and every message twice; takes whatever comes as new."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._late: list[tuple[int, Any]] = []
        self._calls = 0

    def published(self, messages: Sequence[OverlayMessage], now: float) -> Effects:
        self._late += super().published(messages, now).sends * 2
        self._calls += 1
        if self._calls == 1:
            return Effects([], [], [])
        sends, self._late = self._late, []
        return Effects(sends, [], [])

    def _take(self, span: Span, sender: int | None) -> Effects:
        self.horizons.pop(span.root, None)
        return super()._take(span, sender)


def test_a_message_is_delivered_once_whatever_comes_twice(new_store: NewStore) -> None:
    """The same messages of the same publisher, published at two brokers; and spans that are repeated."""

    async def work() -> None:
        stores = [new_store(name) for name in "abc"]
        async with (
            part(stores[0], "a", node_class=Repeating) as a,
            part(stores[1], "b", a.target, node_class=Repeating) as b,
            part(stores[2], "c", b.target, node_class=Repeating) as c,
        ):
            await until(lambda: len(b.node.links) == 2 and c.node.links)
            queues = [(await subscribe(one.broker, "k", "//item")).queue_id for one in (a, b, c)]
            # What is published first at each leaves it with the next, when the other has accepted the same.
            for n, at in ((1, (a, b)), (2, (a,)), (3, (b,))):
                for one in at:
                    await publish(one.broker, MESSAGE.format(n), source="feed", message_id=f"m{n}")
            for root, others in ((a, (b, c)), (b, (a, c))):
                for one in others:
                    await until(partial(_is_level, one, root))
            for one, queue in zip((a, b, c), queues, strict=True):
                results = [d.message.message_id for d in await drain(one.broker, queue)]
                assert results[0] == "m1"
                assert sorted(results) == ["m1", "m2", "m3"]
            # Two messages twice from the other side; three at c, one of them from two sides.
            async with asyncio.timeout(10):
                while [(await one.overlay.report()).received.already_stored for one in (a, b, c)] != [3, 3, 5]:
                    await asyncio.sleep(0.01)

    run(work())


def _is_level(one: Part, root: Part) -> bool:
    """Whether a broker has stored all that another has published."""
    return bool(one.node.stored_horizons.get(root.node.address) == root.node.last)


def test_what_was_missed_is_asked_for_again_after_a_restart(
    new_store: NewStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        here, there = new_store("a"), new_store("b")
        async with part(here, "a") as a:
            async with part(there, "b", a.target) as b:
                queue = (await subscribe(b.broker, "k", "//item")).queue_id
                await until(lambda: a.node.links and b.node.links)
                await publish(a.broker, MESSAGE.format(0))
                await until(lambda: b.node.stored_horizons)
            numbers = range(1, 301)
            for n in numbers:
                await publish(a.broker, MESSAGE.format(n))
            async with part(there, None, a.target) as b:
                await until(lambda: b.node.stored_horizons.get(a.node.address) == 301)
                results = [d.message.xml.decode() for d in await drain(b.broker, queue)]
                assert results == [MESSAGE.format(n) for n in range(301)]
                report = await a.overlay.report()
                assert (report.tallies.recoveries, report.tallies.recovered) == (1, 300)
            # Now some of what will be asked for is removed.
            for n in range(301, 305):
                await publish(a.broker, MESSAGE.format(n))
            with here.transaction() as transaction:
                transaction.expire(before=1e12, bytes_max=None, limit=1_000, at=0.0, up_to=303)
            async with part(there, "b", a.target) as b:
                await until(lambda: b.node.stored_horizons.get(a.node.address) == 305)
                assert len(await drain(b.broker, queue)) == 2
            assert (await a.overlay.report()).tallies.lost == 1

    run(work())
    assert "broker b requests messages 302 to 303 of this one, which retention has removed" in caplog.text


def test_wishes_follow_the_subscriptions(new_store: NewStore) -> None:
    async def work() -> None:
        store = new_store("a")
        async with part(store, "a") as a:
            await subscribe(a.broker, "stored", "/feed/item")
        async with part(store, "a") as a:
            await until(lambda: len(a.node.wishes) == 1)
            ((_, query),) = a.node.wishes.items()
            assert {disjunct.scope for disjunct in query} == {"default"}
            one = await subscribe(a.broker, "new", "/feed/other[@a = 'b']")
            await until(lambda: one.id in a.node.wishes)
            before = a.node.wishes[one.id]
            changed = await a.broker.replace(one, query="/feed", namespaces={}, dialect="xpath", delivery=one.delivery)
            await until(lambda: a.node.wishes.get(one.id) != before)
            paused = await a.broker.set_state(changed, SubscriptionState.PAUSED)
            await until(lambda: one.id not in a.node.wishes)
            active = await a.broker.set_state(paused, SubscriptionState.ACTIVE)
            await until(lambda: one.id in a.node.wishes)
            await a.broker.unsubscribe(active)
            await until(lambda: one.id not in a.node.wishes)

    run(work())


def test_everything_is_wanted_until_it_is_known_what(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        store = new_store("a")
        async with part(store, "a") as a:
            for n in range(50):
                await subscribe(a.broker, str(n), f"/feed/item[@n = {n}]")
        received: list[set[object]] = []
        monkeypatch.setattr("twigcast.broker.overlay.interests.SLICE_SECONDS", 0.0)
        async with part(store, "a") as a:
            unsubscribe = a.node.unsubscribe

            def heard_of(key: Hashable, now: float) -> Effects:
                received.append(set(a.node.wishes))
                return unsubscribe(key, now)  # type: ignore[no-any-return]

            a.node.unsubscribe = heard_of
            everything = ("everything", "default")
            await until(lambda: received)
            assert everything in received[0]
            assert len(received[0]) == 51
            await until(lambda: len(a.node.wishes) == 50)
            assert not any(Disjunct("default", frozenset()) in query for query in a.node.wishes.values())

    run(work())


def add_tenant(name: str, transaction: Transaction) -> Tenant:
    return transaction.add_tenant(name, {})


def test_tenants_meet_their_namesakes_only(new_store: NewStore) -> None:
    async def work() -> None:
        stores = [new_store(name) for name in "ab"]
        async with part(stores[0], "a") as a, part(stores[1], "b", a.target) as b:
            for one, names in ((a, ["x", "y"]), (b, ["y", "z"])):
                for name in names:
                    await one.broker.change(partial(add_tenant, name))
                await one.broker.tenants_changed()
            numbers = [{tenant.name: tenant.id for tenant in store.tenants()} for store in stores]
            await until(lambda: a.node.links and b.node.links)
            queues = {
                name: (await subscribe(b.broker, "k", "//item", tenant_id=numbers[1][name])).queue_id
                for name in ("default", "y", "z")
            }
            for name in ("x", "y"):
                await publish(a.broker, f"<item>{name}</item>", tenant_id=numbers[0][name])
            await until(lambda: b.node.stored_horizons.get(a.node.address) == 2)
            results = {name: len(await drain(b.broker, queue)) for name, queue in queues.items()}
            assert results == {"default": 0, "y": 1, "z": 0}

    run(work())


def test_a_store_that_fails_keeps_what_arrives_waiting(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def work() -> None:
        stores = [new_store(name) for name in "ab"]
        monkeypatch.setattr("twigcast.broker.overlay.receiving._RETRY_SECONDS", 0.05)
        monkeypatch.setattr("twigcast.broker.overlay.receiving.WAITING_MESSAGES_MAX", 10)
        async with part(stores[0], "a") as a, part(stores[1], "b", a.target) as b:
            queue = (await subscribe(b.broker, "k", "//item")).queue_id
            await until(lambda: a.node.links and b.node.links)
            works = stores[1].transaction

            def fails() -> object:
                raise StoreUnavailable("no")

            stores[1].transaction = fails  # type: ignore[method-assign, assignment]
            for n in range(40):
                await publish(a.broker, MESSAGE.format(n))
                await asyncio.sleep(0.005)
            assert b.node.stored_horizons == {}
            report = await b.overlay.report()
            assert 10 < report.waiting_messages < 40
            stores[1].transaction = works  # type: ignore[method-assign]
            await until(lambda: b.node.stored_horizons.get(a.node.address) == 40)
            assert [d.message.xml.decode() for d in await drain(b.broker, queue)] == [
                MESSAGE.format(n) for n in range(40)
            ]

    run(work())
    assert "messages of other brokers wait" in caplog.text


def test_a_message_that_the_engine_does_not_take_is_kept_as_rejected(new_store: NewStore) -> None:
    """A broker with narrower limits: it says so, and the others are as ever."""

    async def work() -> None:
        from twigcast.limits import Limits

        stores = [new_store(name) for name in "ab"]
        limits = Limits(depth_max=3)
        async with part(stores[0], "a") as a, part(stores[1], "b", a.target, limits=limits) as b:
            queue = (await subscribe(b.broker, "k", "//item")).queue_id
            await until(lambda: a.node.links and b.node.links)
            await publish(a.broker, "<a><b><c><item/></c></b></a>", MESSAGE.format(1))
            await until(lambda: b.node.stored_horizons.get(a.node.address) == 2)
            assert len(await drain(b.broker, queue)) == 1
            (rejected,) = stores[1].rejected(1, limit=9)
            assert "depth" in rejected.reason
            assert (await b.overlay.report()).received.refused == 1

    run(work())


def test_a_store_keeps_its_name(new_store: NewStore) -> None:
    async def work() -> None:
        store = new_store("a")
        async with part(store, "a") as a:
            first = a.overlay.identity
        with pytest.raises(Conflict, match="belongs to the broker 'a'"):
            async with part(store, "b"):
                pass
        async with part(store, None) as a:
            assert a.overlay.identity.name == "a"
            assert a.overlay.identity.incarnation > first.incarnation

    run(work())


def test_what_others_may_ask_for_is_kept_longer(new_store: NewStore) -> None:
    async def work() -> None:
        store = new_store("a")
        async with part(store, "a", retention_bytes=60, upkeep_seconds=0.05) as a:
            a.node.floor = 2
            await until(lambda: a.overlay.retained_above == 2)
            await publish(a.broker, *["<ten-bytes>"[:-1] + "/>"] * 9)
            await until(lambda: store.statistics(1).messages <= 9)
            await asyncio.sleep(0.3)
            # Two have gone since all know them; of the rest, twice as much as otherwise stays.
            assert [m.seq for m in store.messages(1, limit=99)] == list(range(3, 10))
            await publish(a.broker, *["<ten-bytes>"[:-1] + "/>"] * 9)
            await until(lambda: store.statistics(1).bytes <= 120)
            assert store.statistics(1).messages == 10

    run(work())
