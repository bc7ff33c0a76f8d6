"""Matching in an event loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from twigcast import SubscriptionSet
from twigcast.errors import MalformedMessage


def test_amatch_is_match() -> None:
    subscriptions = SubscriptionSet({f"k{n}": f"//a{n}" for n in range(9)})
    chance = random.Random(7)
    messages = [f"<r>{''.join(f'<a{chance.randrange(9)}/>' for _ in range(3))}</r>" for _ in range(50)]

    async def all_at_once() -> list[list[str]]:
        return [match.keys for match in await asyncio.gather(*map(subscriptions.amatch, messages))]

    assert asyncio.run(all_at_once()) == [subscriptions.match(message).keys for message in messages]


def test_amatch_raises_what_match_does() -> None:
    with pytest.raises(MalformedMessage):
        asyncio.run(SubscriptionSet().amatch("<a>"))


def test_the_event_loop_goes_on_while_a_message_is_matched() -> None:
    """The message is only read once the loop has run something else."""
    ran = threading.Event()

    class Waiting:
        def read(self) -> bytes:
            assert ran.wait(timeout=30), "the loop stood still"
            return b"<a/>"

    async def main() -> list[str]:
        matching = asyncio.ensure_future(SubscriptionSet({"a": "/a"}).amatch(Waiting()))
        await asyncio.sleep(0)
        ran.set()
        return (await matching).keys

    assert asyncio.run(main()) == ["a"]
