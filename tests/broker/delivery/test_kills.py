"""B-07 with a real process: killed at random moments between and during attempts, it loses and reorders nothing."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from tests.broker.delivery.conftest import both_stores
from tests.broker.delivery.pushing import until
from tests.broker.delivery.receiver import DROP, Got, Receiver, Reply
from tests.seeds import printed_seed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[3]
MESSAGES = 60
KILLS = 3


@both_stores
async def test_b07_kill_nine_between_attempts(address: str) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    taken: list[Got] = []

    def reply(got: Got) -> Reply:
        status = chance.choice([200, 200, 500, DROP])
        if status == 200:
            taken.append(got)
        return Reply(status, delay=chance.choice([0.0, 0.01]))

    async def start(url: str) -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", "tests.broker.delivery.victim", address, url, str(MESSAGES)]
        path = os.pathsep.join([str(REPOSITORY / "python"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        return await asyncio.create_subprocess_exec(
            *command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": path}, stderr=asyncio.subprocess.DEVNULL
        )

    async with Receiver(reply) as receiver:
        for _ in range(KILLS):
            process = await start(receiver.url)
            before = len(receiver.got)
            await receiver.count(before + chance.randrange(1, 15), seconds=20)
            await asyncio.sleep(chance.random() * 0.03)
            process.kill()
            await process.wait()
        process = await start(receiver.url)
        last = f"<a>{MESSAGES - 1}</a>".encode()
        await until(lambda: any(got.body == last for got in taken), seconds=30)
        process.kill()
        await process.wait()
    first: dict[bytes, Got] = {}
    for got in taken:
        if got.body in first:
            assert got.headers["twigcast-redelivered"] == "true", "a double is marked"
            assert got.headers["webhook-id"] == first[got.body].headers["webhook-id"]
        first.setdefault(got.body, got)
    assert list(first) == [f"<a>{number}</a>".encode() for number in range(MESSAGES)]
