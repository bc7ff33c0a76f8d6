"""A pair of brokers on one PostgreSQL: the active one is killed or stopped, the other goes on, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.broker.pair.processes import Member, wait_until
from tests.services.postgresql import PostgresqlServer
from twigcast.broker.errors import Standby, StoreInUse, StoreUnavailable, TenureLost
from twigcast.broker.store import tenure
from twigcast.broker.store.store import open_store
from twigcast.broker.store.tenure import TENURE_SECONDS
from twigcast.client import Client

TAKEN_OVER_SECONDS = 20.0
"""The time in which the other broker has to answer: ten seconds, and twice that on a machine that runs other tests."""

START_SECONDS = 60.0

KILLS = max(3, int(os.environ.get("TWIGCAST_TEST_KILLS", "3")))


@pytest.fixture
def database(postgresql_server: PostgresqlServer) -> Iterator[str]:
    name = postgresql_server.new_database()
    yield postgresql_server.url(name)
    postgresql_server.drop(name)


@pytest.fixture
def pair(database: str, tmp_path: Path) -> Iterator[tuple[Member, Member]]:
    members = Member(database, tmp_path, "one"), Member(database, tmp_path, "two")
    try:
        for member in members:
            member.start()
            wait_until(lambda member=member: bool(member.health()), START_SECONDS, member)  # type: ignore[misc]
        yield members
    finally:
        for member in members:
            member.signal(signal.SIGCONT)
            member.kill()


class Traffic:
    """A publisher and a subscriber that know both addresses, and go on whatever happens to the brokers."""

    def __init__(self, members: tuple[Member, Member]) -> None:
        self.token = members[0].token_file.read_text().strip()
        self.urls = [member.url for member in members]
        self.accepted: list[int] = []
        self.got: list[int] = []
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        with self.client() as client:
            client.subscribe("all", "/m")
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._publish, self._listen)]
        for thread in self._threads:
            thread.start()

    def client(self) -> Client:
        return Client(self.urls, self.token)

    def _run(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            self._errors.append(error)
            raise

    def _publish(self) -> None:
        number = 0
        with self.client() as client:
            while not self._stopped.is_set():
                number += 1
                client.publish(f"<m>{number}</m>", message_id=f"m{number}")
                self.accepted.append(number)

    def _listen(self) -> None:
        with self.client() as client:
            for delivery in client.stream("all"):
                number = int((delivery.xml or "").removeprefix("<m>").removesuffix("</m>"))
                self.got.append(number)
                if number == -1:
                    return

    def more(self) -> bool:
        """Whether something was accepted since this was called before."""
        before, self._before = getattr(self, "_before", 0), len(self.accepted)
        return self._before > before

    def finish(self) -> None:
        """Ends both, when the subscriber has everything."""
        self._stopped.set()
        self._threads[0].join(60)
        with self.client() as client:
            client.publish("<m>-1</m>")
        self._threads[1].join(60)
        assert not self._errors
        assert not any(thread.is_alive() for thread in self._threads)


def active_first(pair: tuple[Member, Member]) -> tuple[Member, Member]:
    one, two = pair
    wait_until(lambda: one.is_active or two.is_active, START_SECONDS, *pair)
    return (one, two) if one.is_active else (two, one)


@pytest.mark.slow
def test_a_killed_broker_is_replaced_in_time_and_nothing_is_lost(pair: tuple[Member, Member]) -> None:
    active_first(pair)
    traffic = Traffic(pair)
    times = []
    for _ in range(KILLS):
        active, standby = active_first(pair)
        wait_until(traffic.more, 30, *pair)
        active.kill()
        times.append(wait_until(lambda: standby.is_active, 30, *pair))  # noqa: B023 - called here
        traffic.more()
        wait_until(traffic.more, 30, *pair)
        active.start()
        wait_until(lambda: active.is_standby, START_SECONDS, *pair)  # noqa: B023
    traffic.finish()
    print("taken over after", [round(seconds, 1) for seconds in times])
    assert max(times) < TAKEN_OVER_SECONDS
    assert [number for number in dict.fromkeys(traffic.got) if number > 0] == traffic.accepted


@pytest.mark.slow
def test_a_broker_that_was_stopped_and_goes_on_writes_nothing_and_becomes_the_standby(
    pair: tuple[Member, Member], database: str
) -> None:
    active, standby = active_first(pair)
    traffic = Traffic(pair)
    wait_until(traffic.more, 30, *pair)
    active.signal(signal.SIGSTOP)
    wait_until(lambda: standby.is_active, 30, *pair)
    # Requests that wait in its sockets are read as soon as it goes on.
    late = []

    def publish_late() -> None:
        headers = {"Authorization": f"Bearer {traffic.token}", "Content-Type": "application/xml"}
        try:
            late.append(httpx2.post(f"{active.url}/messages?id=late", content="<late/>", headers=headers, timeout=30))
        except httpx2.TransportError:
            return  # the connection ended with the process that it was to

    thread = threading.Thread(target=publish_late)
    thread.start()
    active.signal(signal.SIGCONT)
    thread.join(60)
    assert [response.status_code for response in late] in ([], [503])
    wait_until(lambda: active.is_standby, START_SECONDS, *pair)
    assert active.health()["active"] == standby.url
    traffic.finish()
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT count(*) FROM twigcast.messages WHERE message_id = 'late'").fetchall()
    assert rows == [(0,)]
    assert [number for number in dict.fromkeys(traffic.got) if number > 0] == traffic.accepted


@pytest.mark.slow
def test_a_standby_says_who_is_active_and_follows_at_once_when_that_one_ends_in_order(
    pair: tuple[Member, Member],
) -> None:
    active, standby = active_first(pair)
    with pytest.raises(Standby) as refused, Client(standby.url, "tc_x") as client:
        client.identity()
    assert refused.value.active == active.url
    ready = httpx2.get(f"{standby.url}/ready")
    assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
    assert ready.json()["active"] == active.url
    assert "twigcast_active 0.0" in httpx2.get(f"{standby.url}/metrics").text
    active.signal(signal.SIGTERM)
    active.process.wait(30)
    assert wait_until(lambda: standby.is_active, 30, *pair) < TENURE_SECONDS + 5


def test_a_store_that_another_one_has_taken_over_writes_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenure, "RENEWED_SECONDS", 3_600.0)
    first = open_store(database, where="http://first")
    with pytest.raises(StoreInUse):
        open_store(database, where="http://second")
    lost = threading.Event()
    mine = first.database.tenure
    assert mine is not None
    mine.on_lost = lost.set
    with psycopg.connect(database, autocommit=True) as other:
        # As if the machine of the first had hung: its tenure is over, and its connections are there.
        other.execute(
            "UPDATE twigcast_tenure.tenure SET until = clock_timestamp() - interval '1 second', number = number"
        )
        second = open_store(database, where="http://second")
        try:
            with pytest.raises(StoreUnavailable), first.transaction() as transaction:
                transaction.next_seq()
            with pytest.raises(TenureLost) as refused, first.transaction() as transaction:
                transaction.next_seq()
            assert "http://second" in str(refused.value)
            assert lost.wait(10)
            assert not mine.is_valid
            with second.transaction() as transaction:
                transaction.next_seq()
        finally:
            second.close()
            first.close()
