"""What was missed comes in portions: a broker in between never has more than some of it to pass on."""

from __future__ import annotations

import pytest

from tests.broker.hub.hubs import drain, publish, run, subscribe
from tests.broker.overlay.overlays import NewStore, part, until
from twigcast.broker.overlay import recovery
from twigcast.broker.overlay.broker_node import BrokerNode


def test_a_broker_that_was_away_gets_all_in_portions(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "PORTION_BYTES", 100_000)
    stores = [new_store(name) for name in "abc"]
    text = "x" * 2_000
    most = 0

    async def work() -> None:
        nonlocal most
        async with (
            part(stores[0], "a", node_class=BrokerNode) as a,
            part(stores[1], "b", a.target, node_class=BrokerNode) as b,
        ):
            async with part(stores[2], "c", b.target, node_class=BrokerNode) as c:
                queue = (await subscribe(c.broker, "all", "//item")).queue_id
                await until(lambda: not c.overlay._inside.interests.wide_scopes and len(b.node.links) == 2)
                root = a.node.address
                streams = c.node.streams
                await until(lambda: root in streams and streams[root].is_confirmed)
                await publish(a.broker, "<feed><item n='0'/></feed>")
                await until(lambda: c.node.streams[root].stored == 1)
            for number in range(1, 500):
                await publish(a.broker, f"<feed><item n='{number}'/>{text}</feed>")
            async with part(stores[2], "c", b.target, node_class=BrokerNode) as c:

                def watched() -> bool:
                    nonlocal most
                    links = b.overlay._inside.driver.links.all()
                    most = max([most, *(link.queue_bytes for link in links)])
                    return bool(root in c.node.streams and c.node.streams[root].stored == 500)

                await until(watched)
                assert len(await drain(c.broker, queue)) == 500
                # A megabyte, read two hundred kilobytes at a time: each is more than a portion.
                assert a.overlay._totals.recoveries >= 5
                assert most < 500_000

    run(work())


def test_what_is_missing_comes_before_what_is_published_meanwhile(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "PORTION_BYTES", 20_000)
    stores = [new_store(name) for name in "ab"]
    text = "x" * 1_000

    async def work() -> list[int]:
        async with part(stores[0], "a", node_class=BrokerNode) as a:
            async with part(stores[1], "b", a.target, node_class=BrokerNode) as b:
                queue = (await subscribe(b.broker, "all", "//item")).queue_id
                await until(lambda: not b.overlay._inside.interests.wide_scopes and len(a.node.links) == 1)
                root = a.node.address
                await until(lambda: root in b.node.streams and b.node.streams[root].is_confirmed)
                await publish(a.broker, f"<feed><item n='0'/>{text}</feed>")
                await until(lambda: b.node.streams[root].stored == 1)
            for number in range(1, 200):
                await publish(a.broker, f"<feed><item n='{number}'/>{text}</feed>")
            async with part(stores[1], "b", a.target, node_class=BrokerNode) as b:
                await until(lambda: root in b.node.streams and b.node.streams[root].is_confirmed)
                for number in range(200, 250):
                    await publish(a.broker, f"<feed><item n='{number}'/>{text}</feed>")
                await until(lambda: b.node.streams[root].stored == 250)
                deliveries = await drain(b.broker, queue)
                assert b.overlay._inside.receiver.counts.overtaken == 0
                return [int(delivery.message.xml.split(b"'")[1]) for delivery in deliveries]

    assert run(work()) == list(range(250))
