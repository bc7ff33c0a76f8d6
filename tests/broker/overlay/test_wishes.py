"""What a broker wants of others after its start: when it is worked out."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from twigcast.broker.overlay.wishes import Wish, Wishes


def wish(number: int) -> Wish:
    return Wish(number, "default", f"/feed/item[@n = '{number}']", {}, "xpath")


async def until(condition: object) -> None:
    async with asyncio.timeout(30):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)


def test_what_was_missed_comes_before_the_subscriptions_of_before_and_not_before_new_ones() -> None:
    wanted: set[Hashable] = set()
    has_caught_up = False

    async def work() -> None:
        nonlocal has_caught_up
        wishes = Wishes(lambda made, _: wanted.update(made), wanted.difference_update, may_begin=lambda: has_caught_up)
        wishes.begin(["default"])
        everything = ("everything", "default")
        assert wanted == {everything}
        task = asyncio.create_task(wishes.run())
        wishes.start_with([wish(number) for number in range(10)])
        wishes.started()
        wishes.change([wish(77)], [])
        await until(lambda: 77 in wanted)
        assert wanted == {everything, 77}
        has_caught_up = True
        await until(lambda: everything not in wanted)
        assert wanted == {77, *range(10)}
        task.cancel()

    asyncio.run(work())
