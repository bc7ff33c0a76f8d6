"""Brokers whose links carry messages parsed: nothing is lost or changed in meaning, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.hub.hubs import drain, publish, run, subscribe
from tests.broker.overlay.overlays import Part, part
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.store.store import Store, open_store
from twigcast.overlay.onyx.lexicon import LexiconUpdate
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.wire.bodies import Bodies
from twigcast.overlay.onyx.wire.exchange import Exchange
from twigcast.overlay.onyx.wire.forms import WireForm

MESSAGE = "<feed><item n='{}'><![CDATA[a < b]]></item></feed>"
COMES_AS = '<feed><item n="{}">a &lt; b</item></feed>'


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    """Three of them."""
    opened = [open_store(tmp_path / name) for name in "abc"]
    yield opened
    for store in opened:
        store.close()


async def until_true(condition: Callable[[], Any]) -> None:
    """Wait for an asynchronous condition."""
    async with asyncio.timeout(40):
        while not await condition():
            await asyncio.sleep(0.02)


async def is_wanted(first: Part, last: Part) -> bool:
    """Whether what a broker wants is known at another one, and it gets all that comes from there."""
    at_first, at_last = await first.overlay.report(), await last.overlay.report()
    return any(at_first.status.tables.values()) and at_first.identity in at_last.status.horizons


async def received(one: Part, count: int) -> bool:
    result = (await one.overlay.report()).received
    return result.stored + result.unwanted + result.refused >= count


@pytest.mark.parametrize(
    ("forms", "first", "second"),
    [
        ([["dictionary"]] * 3, "dictionary", "dictionary"),
        ([["stream+zstd"]] * 3, "stream+zstd", "stream+zstd"),
        ([["dictionary+zlib", "stream"], ["stream", "dictionary"], ["dictionary"]], "stream", "dictionary"),
        ([["dictionary"], ["dictionary"], []], "dictionary", "text"),
        ([[], ["dictionary"], ["dictionary"]], "text", "dictionary"),
        ([["dictionary"], ["c=text", "dictionary"], ["dictionary"]], "dictionary", "text"),
    ],
)
def test_messages_get_through_in_any_form(stores: list[Store], forms: list[list[str]], first: str, second: str) -> None:
    async def work() -> None:
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=forms[0]) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=forms[1]) as b,
            part(stores[2], "c", b.target, node_class=BrokerNode, forms=forms[2]) as c,
        ):
            queue = (await subscribe(c.broker, "k", "//item[@n > 4]")).queue_id
            await until_true(lambda: is_wanted(a, c))
            await publish(a.broker, *(MESSAGE.format(n) for n in range(10)), source="feed")
            await until_true(lambda: received(c, 5))
            delivered = [d.message.xml.decode() for d in await drain(c.broker, queue)]
            comes_as = MESSAGE if first == second == "text" else COMES_AS
            assert delivered == [comes_as.format(n) for n in range(5, 10)]
            assert stores[1].statistics().messages == 0
            (link,) = (await a.overlay.report()).links
            assert (link.sends, link.receives) == (first, first)
            report = await b.overlay.report()
            links = {link.name: link for link in report.links}
            assert (links["c"].sends, links["a"].receives) == (second, first)
            assert report.damaged == 0
            # In the middle nothing is turned into anything else, unless the next broker wants it.
            assert (report.transcoded > 0) == (first != second)

    run(work())


@pytest.mark.parametrize("forms", [[], ["dictionary"], ["stream+zstd"]])
def test_declared_ids_are_ids_at_other_brokers(stores: list[Store], forms: list[str]) -> None:
    """Also on the way, where brokers decide by the same attributes who wants a message."""
    subset = "<!DOCTYPE feed [<!ATTLIST item k ID #IMPLIED>]>"
    plain = "<feed><item k='x{}'/></feed>"

    async def work() -> None:
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=forms) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=forms) as b,
            part(stores[2], "c", b.target, node_class=BrokerNode, forms=forms) as c,
        ):
            by_id = (await subscribe(c.broker, "k", "id('x3')")).queue_id
            of_all = (await subscribe(c.broker, "l", "//item")).queue_id
            await until_true(lambda: is_wanted(a, c))
            await publish(a.broker, *(subset + plain.format(n) for n in range(5)), plain.format(3), source="feed")
            await until_true(lambda: received(c, 6))
            assert [d.message.xml.decode() for d in await drain(c.broker, by_id)] == [plain.format(3)]
            found = [d.message for d in await drain(c.broker, of_all)]
            # None of them is delivered with a DOCTYPE, and those that came without one may have been written anew.
            assert [message.xml.decode() for message in found[:5]] == [plain.format(n) for n in range(5)]
            assert [message.id_types is not None for message in found] == [True] * 5 + [False]
            assert (await b.overlay.report()).damaged == 0

    run(work())


def test_a_link_that_breaks_teaches_its_dictionaries_again(stores: list[Store]) -> None:
    async def work() -> None:
        forms = ["dictionary"]
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=forms) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=forms) as b,
            part(stores[2], "c", b.target, node_class=BrokerNode, forms=forms) as c,
        ):
            queue = (await subscribe(c.broker, "k", "//item")).queue_id
            await until_true(lambda: is_wanted(a, c))
            for n in range(30):
                await publish(a.broker, MESSAGE.format(n), source="feed", message_id=f"m{n}")
                if n % 10 == 5:
                    inside = b.overlay._inside
                    for link in inside.driver.links.all():
                        b.overlay._thread.call(inside.driver.links.break_off, link.identity, "test", "cut")
            await until_true(lambda: received(c, 30))
            delivered = await drain(c.broker, queue)
            assert sorted(d.message.message_id for d in delivered) == sorted(f"m{n}" for n in range(30))
            assert {d.message.xml.decode() for d in delivered} == {COMES_AS.format(n) for n in range(30)}
            links = (await a.overlay.report()).links
            assert [(link.sends, link.forms_taught > 0) for link in links] == [("dictionary", True)]
            assert (await c.overlay.report()).received.refused == 0

    run(work())


def test_a_dictionary_that_was_lost_breaks_the_link_and_nothing_else(
    stores: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver forgets the first that it is taught, as if the two had another idea of what was said."""
    learn = Exchange.learn
    forgotten: list[LexiconUpdate] = []

    def forget(self: Exchange, teaching: LexiconUpdate) -> None:
        if not forgotten:
            forgotten.append(teaching)
            return
        learn(self, teaching)

    monkeypatch.setattr(Exchange, "learn", forget)

    async def work() -> None:
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=["dictionary"]) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=["dictionary"]) as b,
        ):
            queue = (await subscribe(b.broker, "k", "//item")).queue_id
            await until_true(lambda: is_wanted(a, b))
            await publish(a.broker, *(MESSAGE.format(n) for n in range(5)))
            await until_true(lambda: received(b, 5))
            assert [d.message.xml.decode() for d in await drain(b.broker, queue)] == [
                COMES_AS.format(n) for n in range(5)
            ]
            assert (await b.overlay.report()).trouble_counts["form"] == 1

    run(work())
    assert forgotten


def _cut(body: bytes) -> bytes:
    return body[:-3]


def _hostile(body: bytes) -> bytes:
    return body.replace(b"a &lt; b", b"a <x> bb")


def _hostile_attribute(body: bytes) -> bytes:
    """Nobody on the way asks for attributes: the broker that it is for is the first to see this one."""
    return body.replace(b"3a &lt; b", b"<a &lt; b")


def _of_version_1(body: bytes) -> bytes:
    return body.replace(b"TW\x02", b"TW\x01")


@pytest.mark.parametrize("damage", [_cut, _hostile, _hostile_attribute, _of_version_1])
@pytest.mark.parametrize("form", ["stream", "dictionary", "stream+zstd"])
def test_a_damaged_message_is_kept_with_the_reason_where_it_is_for(
    stores: list[Store], monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes], form: str
) -> None:
    """Its first broker spoils it: frame and sum are right, what is in it is not."""
    restructured = Bodies._restructured

    def spoil(self: Bodies, message: OverlayMessage, *more: Any) -> Any:
        body, lexicon = restructured(self, message, *more)
        if message.number != 3:
            return body, lexicon
        damaged = damage(body)
        assert damaged != body
        return damaged, lexicon

    monkeypatch.setattr(Bodies, "_restructured", spoil)

    async def work() -> None:
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=[form]) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=[form]) as b,
            part(stores[2], "c", b.target, node_class=BrokerNode, forms=[form]) as c,
        ):
            queue = (await subscribe(c.broker, "k", "//item")).queue_id
            await until_true(lambda: is_wanted(a, c))
            await publish(a.broker, *(MESSAGE.format(n) for n in range(1, 7)))
            await until_true(lambda: received(c, 6))
            delivered = [d.message.xml.decode() for d in await drain(c.broker, queue)]
            assert delivered == [COMES_AS.format(n) for n in (1, 2, 4, 5, 6)]
            report = await c.overlay.report()
            assert (report.received.refused, report.received.lost) == (1, 0)
            assert stores[2].statistics().rejected == 1
            assert WireForm.named(report.links[0].receives) == WireForm.named(form)

    run(work())


@pytest.mark.parametrize("form", ["text", "dictionary"])
def test_queries_in_xquery_get_what_comes_from_others(stores: list[Store], form: str) -> None:
    """They look at stored messages: these have to be stored although nobody else wants them."""
    pytest.importorskip("saxonche", reason="queries in XQuery need Saxon")

    async def work() -> None:
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=[form]) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=[form]) as b,
        ):
            query = "for $x in //item[@n > 4] let $n := $x/@n order by $n return <r>{ string($n) }</r>"
            queue = (await subscribe(b.broker, "k", query, dialect="xquery")).queue_id
            await until_true(lambda: is_wanted(a, b))
            await publish(a.broker, *(MESSAGE.format(n) for n in range(10)), source="feed")
            await until_true(lambda: received(b, 5))
            results: list[bytes | None] = []

            async def all_came() -> bool:
                results.extend(d.payload for d in await drain(b.broker, queue))
                return len(results) >= 5

            await until_true(all_came)
            assert results == [f"<r>{n}</r>".encode() for n in range(5, 10)]

    run(work())


def test_a_large_message_goes_over_a_slow_reader(stores: list[Store]) -> None:
    async def work() -> None:
        text = "<feed>{}</feed>".format("<item n='1'>some text</item>" * 60_000)
        async with (
            part(stores[0], "a", node_class=BrokerNode, forms=["dictionary+zlib"]) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode, forms=["dictionary+zlib"]) as b,
        ):
            queue = (await subscribe(b.broker, "k", "//item")).queue_id
            await until_true(lambda: is_wanted(a, b))
            b.overlay._thread.call(b.overlay._inside.driver.read, False)
            await publish(a.broker, text, MESSAGE.format(2))
            await asyncio.sleep(0.3)
            assert not await received(b, 1)
            b.overlay._thread.call(b.overlay._inside.driver.read, True)
            await until_true(lambda: received(b, 2))
            large, small = await drain(b.broker, queue)
            assert large.message.xml.decode() == text.replace("'", '"')
            assert small.message.xml.decode() == COMES_AS.format(2)
            (link,) = (await a.overlay.report()).links
            assert link.sent_bytes < len(text) // 5

    run(work())
