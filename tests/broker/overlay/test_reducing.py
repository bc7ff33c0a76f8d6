"""Messages reduced on links between real brokers: subscribers get what one broker would give them."""

from __future__ import annotations

import asyncio
import random
from contextlib import AbstractAsyncContextManager

import pytest
from lxml import etree

from tests.broker.hub.hubs import drain, publish, run, subscribe
from tests.broker.overlay.overlays import NewStore, Part, part, until
from tests.overlay.onyx.protocol.reducing_histories import QUERIES, draw_batch, result
from tests.seeds import seed_or
from twigcast.broker.model import QueuedDelivery
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.store.store import Store

SEED = seed_or(20261128)
REDUCED = QUERIES[:8]
"""Those that allow a projection, of one kind."""


def broker(
    store: Store, name: str, *join: Part, reduces: bool = True, forms: tuple[str, ...] = ("text",)
) -> AbstractAsyncContextManager[Part]:
    targets = [one.target for one in join]
    return part(store, name, *targets, node_class=BrokerNode, forms=forms, more={"reduces": reduces})


async def settled(*parts: Part) -> None:
    """Until what is wanted anywhere is known everywhere; whoever is last in the list has a way to all others."""

    def known() -> bool:
        insides = [one.overlay._inside for one in parts]
        streams = [one.node.streams.values() for one in parts]
        return not any(one.interests.wide_scopes or one.interests.waiting for one in insides) and all(
            sum(stream.is_confirmed for stream in each) == len(parts) - 1 for each in streams
        )

    await until(known)
    # What has changed last is told within a moment. Where that is late, messages are whole: nothing is wrong then.
    await asyncio.sleep(0.5)


def got(delivery: QueuedDelivery) -> bytes | None:
    """The result that was delivered, in the form of the oracle's."""
    if delivery.payload is None:
        return b"matches"
    tree = etree.fromstring(b"<w>" + delivery.payload + b"</w>")
    return etree.tostring(tree, method="c14n", exclusive=True)


@pytest.mark.parametrize(
    ("reduces", "queries", "forms"),
    [
        ((True, True, True), REDUCED, ("text",)),
        ((True, True, True), REDUCED, ("stream",)),
        ((True, True, True), QUERIES, ("stream+zlib",)),
        ((True, False, True), REDUCED, ("text",)),
        ((False, False, False), QUERIES, ("text",)),
    ],
)
def test_subscribers_get_what_one_broker_would_give_them(
    new_store: NewStore, reduces: tuple[bool, bool, bool], queries: tuple[str, ...], forms: tuple[str, ...]
) -> None:
    """Parts go over links in whatever form these have agreed on; the middle reads what it reduces further."""
    rng = random.Random(f"{SEED} {reduces} {len(queries)} {forms}")
    stores = [new_store(name) for name in "abc"]
    bodies = [draw_batch(rng) for _ in range(60)]

    async def work() -> None:
        async with (
            broker(stores[0], "a", reduces=reduces[0], forms=forms) as a,
            broker(stores[1], "b", a, reduces=reduces[1], forms=forms) as b,
            broker(stores[2], "c", b, reduces=reduces[2], forms=forms) as c,
        ):
            await until(lambda: len(b.node.links) == 2)
            queues = [
                (at, query, (await subscribe(at.broker, f"k{number}", query)).queue_id)
                for at in (b, c)
                for number, query in enumerate(rng.sample(queries, 3))
            ]
            await settled(a, b, c)
            for number, body in enumerate(bodies):
                await publish(a.broker, body, message_id=f"m{number}")
            root = a.node.address
            await until(lambda: all(at.node.streams[root].stored == len(bodies) for at in (b, c)), 30)
            for at, query, queue in queues:
                deliveries = {d.message.message_id: got(d) for d in await drain(at.broker, queue)}
                expected = {f"m{number}": result(query, body) for number, body in enumerate(bodies)}
                assert deliveries == {name: one for name, one in expected.items() if one is not None}, query
            counts = (await a.overlay.report()).status.counts
            if all(reduces) and queries is REDUCED:
                assert counts["reduced"] > 10
                assert (await b.overlay.report()).status.counts["reduced"] > 0
                if forms == ("text",):
                    assert counts["reduced_bytes"] > 500
                kept = stores[2].messages(1, after=0, up_to=None, limit=100)
                assert kept
                assert all(b"d='1'" not in message.xml and b"<m/>" not in message.xml for message in kept)
                route = await a.overlay.route_of(stores[0].messages(1, after=0, up_to=None, limit=1)[0])
                assert route.branches[0][1].reduced.startswith("<b>{ for $n in /b/n")
            if not reduces[0]:
                assert not counts.get("reduced")

    run(work())


def test_subscriptions_that_come_while_messages_flow_get_right_results_or_none(new_store: NewStore) -> None:
    """Some are in the engine before the overlay has heard of them: what was reduced without them is not for them."""
    rng = random.Random(SEED)
    stores = [new_store(name) for name in "ab"]
    bodies: list[bytes] = []

    async def flow(at: Part) -> None:
        for number in range(150):
            bodies.append(draw_batch(rng))
            await publish(at.broker, bodies[-1], message_id=f"m{number}")

    async def work() -> None:
        async with broker(stores[0], "a") as a, broker(stores[1], "b", a) as b:
            await until(lambda: b.node.links)
            queues = {REDUCED[0]: (await subscribe(b.broker, "first", REDUCED[0])).queue_id}
            await settled(a, b)
            flowing = asyncio.create_task(flow(a))
            new = ("count(/b/n) = 1", "not(/b/n[@area = 1])", *QUERIES[7:9], REDUCED[3])
            for number, query in enumerate(new):
                await asyncio.sleep(0.05)
                queues[query] = (await subscribe(b.broker, f"k{number}", query)).queue_id
            await flowing
            root = a.node.address
            await until(lambda: b.node.streams[root].stored == len(bodies), 30)
            for query, queue in queues.items():
                deliveries = await drain(b.broker, queue)
                for delivery in deliveries:
                    body = bodies[int(delivery.message.message_id[1:])]
                    assert got(delivery) == result(query, body), f"{query}: {body!r}"
                if query == REDUCED[0]:
                    assert len(deliveries) == sum(result(query, body) is not None for body in bodies)

    run(work())
