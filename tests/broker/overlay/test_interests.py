"""What a broker wants of others after its start: when it is worked out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable

import pytest

from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.interests import LocalInterest, LocalInterests
from twigcast.limits import Limits
from twigcast.overlay.onyx.content.routing_query import everything, routing_query
from twigcast.overlay.onyx.messages import PROTOCOL, Attached, Hello, LinkState, Recovered, RoutingQuery, Span
from twigcast.overlay.onyx.wire.bodies import Bodies


def wish(number: int) -> LocalInterest:
    return LocalInterest(number, "default", f"/feed/item[@n = '{number}']", {}, "xpath")


async def until(condition: object) -> None:
    async with asyncio.timeout(30):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)


def test_what_was_missed_comes_before_the_subscriptions_of_before_and_not_before_new_ones() -> None:
    requested: set[Hashable] = set()
    has_caught_up = False

    async def work() -> None:
        nonlocal has_caught_up
        interests = LocalInterests(
            lambda created, _: requested.update(created), requested.difference_update, can_begin=lambda: has_caught_up
        )
        interests.begin(["default"])
        everything = ("everything", "default")
        assert requested == {everything}
        task = asyncio.create_task(interests.run())
        interests.add_stored([wish(number) for number in range(10)])
        interests.finish_loading()
        interests.change([wish(77)], [])
        await until(lambda: 77 in requested)
        assert requested == {everything, 77}
        has_caught_up = True
        await until(lambda: everything not in requested)
        assert requested == {77, *range(10)}
        task.cancel()

    asyncio.run(work())


def test_what_changes_before_it_was_looked_at_is_not_undone_by_what_was_stored() -> None:
    requested: dict[Hashable, RoutingQuery] = {}
    has_caught_up = False

    async def work() -> None:
        nonlocal has_caught_up
        interests = LocalInterests(
            lambda created, _: requested.update(created), lambda _: None, can_begin=lambda: has_caught_up
        )
        interests.add_stored([wish(number) for number in range(10)])
        interests.finish_loading()
        task = asyncio.create_task(interests.run())
        other = wish(77)._replace(id=3)
        interests.change([other], [])
        await until(lambda: 3 in requested)
        has_caught_up = True
        await until(lambda: 9 in requested)
        assert requested[3] == routing_query(other.query, {}, "xpath", "default")
        task.cancel()

    asyncio.run(work())


def test_a_routing_query_that_explodes_is_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    requested: dict[Hashable, RoutingQuery] = {}
    exploding = "/feed/item" + "".join(f"[a{n} or b{n}]" for n in range(40))

    async def work() -> None:
        interests = LocalInterests(lambda created, _: requested.update(created), lambda _: None)
        interests.finish_loading()
        task = asyncio.create_task(interests.run())
        interests.change([wish(1), wish(2)._replace(query=exploding), wish(3)._replace(query=exploding)], [])
        await until(lambda: 3 in requested)
        assert interests.generalised == 2
        assert requested[2]
        interests.change([wish(2)], [3])
        await until(lambda: interests.generalised == 0)
        task.cancel()

    with caplog.at_level(logging.INFO):
        asyncio.run(work())
    named = [record.getMessage() for record in caplog.records if "more is asked for" in record.getMessage()]
    assert [message.split(":")[0] for message in named] == [
        f"for subscription {number} more is asked for than it wants" for number in (2, 3)
    ]


def test_a_broker_that_comes_back_works_out_its_wishes_when_it_has_what_it_missed() -> None:
    """Until it has heard of all that it knew before, and of no more than that."""
    node = BrokerNode(1, 2, Bodies(), Limits(), horizons={2: 4})
    assert node.is_catching_up(), "it was linked before, and will be"
    node.subscribe("k", everything(), 0.0)
    node.link_up(2, 1, 0.0)
    node.receive(2, Hello(2, 1, PROTOCOL, ("text",)), 0.0)
    node.receive(2, LinkState(2, 1, 1, ((1, 1),), ""), 0.0)
    assert node.is_catching_up()
    node.wake("flush", 0.1)
    assert node.is_catching_up()
    node.receive(2, Attached(2, 1, 9), 0.2)
    assert node.is_catching_up()
    node.receive(2, Recovered(Span(2, 4, 9, None), (1,)), 0.3)
    assert not node.is_catching_up()
    assert not BrokerNode(1, 1, Bodies(), Limits()).is_catching_up(), "it knew nobody"
