"""Workers of a shared queue that are killed, and their broker too: nothing is lost, and no lease is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.broker.pair.processes import ROOT, Member, wait_until
from tests.seeds import printed_seed
from twigcast.client import Client, Retries

LEASE = 2.0
WORKERS = 3
KILLS = max(4, int(os.environ.get("TWIGCAST_TEST_KILLS", "6")))
MESSAGES = 30
"""Messages for each kill."""


class Crew:
    """The workers, each replaced when it is killed."""

    def __init__(self, url: str, token: str, folder: Path, chance: Random) -> None:
        self._arguments = [url, token, "jobs", str(LEASE)]
        self._folder = folder
        self._chance = chance
        self._started = 0
        self.processes = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        seed = str(self._chance.randrange(1 << 30))
        with (self._folder / f"worker-{self._started}").open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.broker.queues.worker", *self._arguments, seed],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"},
                stdout=said,
            )

    def lines(self) -> list[list[str]]:
        """What all of them have said."""
        files = sorted(self._folder.glob("worker-*"))
        return [line.split() for file in files for line in file.read_text().splitlines()]

    def count(self, word: str) -> int:
        return sum(line[0] == word for line in self.lines())

    def kill_one(self) -> None:
        index = self._chance.randrange(WORKERS)
        self.processes[index].kill()
        self.processes[index].wait(30)
        self.processes[index] = self._start()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(30)


@pytest.mark.slow
def test_killed_workers_lose_nothing_and_no_other_worker_gets_it_within_a_lease(
    store_address: str, tmp_path: Path
) -> None:
    chance = Random(printed_seed())
    broker = Member(store_address, tmp_path, "broker", standby=False)
    broker.start()
    crew: Crew | None = None
    try:
        wait_until(lambda: bool(broker.health()), 60, broker)
        token = broker.token_file.read_text().strip()
        with Client(broker.url, token, retries=Retries(attempts=100, longest_wait=0.5)) as client:
            client.subscribe("jobs", "/m", delivery={"kind": "pull", "queue": "shared", "attempts_max": 1_000})
            crew = Crew(broker.url, token, tmp_path, chance)
            seqs: set[int] = set()
            for kill in range(KILLS):
                # Workers may have all of them before the last one is published.
                before = crew.count("got")
                seqs |= {client.publish(f"<m>{n}</m>").seq for n in range(MESSAGES)}
                wait_until(lambda: crew.count("got") > before, 60, broker)  # noqa: B023 - called here
                crew.kill_one()
                if kill % 3 == 1:
                    broker.kill()
                    broker.start()
            wait_until(lambda: client.consumer("jobs").pending == 0, 120, broker)
            assert client.dead_letters() == []
    finally:
        if crew is not None:
            crew.end()
        broker.kill()
    check(crew.lines(), seqs)


def check(lines: list[list[str]], seqs: set[int]) -> None:
    got: dict[int, list[tuple[float, float]]] = defaultdict(list)
    returned: set[int] = set()
    for word, number, *times in lines:
        if word == "got":
            got[int(number)].append((float(times[1]), float(times[0])))
        elif word == "back":
            returned.add(int(number))
    assert set(got) == seqs, "each was handed out"
    for seq in seqs - returned:
        in_order = sorted(got[seq])
        for (_, asked), (received, _) in pairwise(in_order):
            # A lease begins after it was asked for, and before that is answered.
            assert received >= asked + LEASE, (seq, in_order)
