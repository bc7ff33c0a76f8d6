"""Three real brokers on loopback: everything arrives, once, whatever is killed, cut, slow or wrong."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from tests.overlay.onyx.network.network_fakes import certificates
from tests.overlay.onyx.network.processes import PATIENCE, BrokerProcess, Proxy, running, wait
from tests.seeds import seed_or
from tests.services.postgresql import PostgresqlServer

pytestmark = pytest.mark.slow

NAMES = ("north", "middle", "south")
PROBE = "probe"
"""How the ids of messages begin that only show whether an interest is known."""


def message(number: int) -> str:
    """A message of one of four kinds."""
    return f"<feed><item kind='k{number % 4}' n='{number}'/></feed>"


def chain(folder: Path, urls: Sequence[str | None] = (None, None, None)) -> list[BrokerProcess]:
    """Three brokers in a row; where a URL is given, on a database."""
    north = BrokerProcess(folder, "north", url=urls[0])
    middle = BrokerProcess(folder, "middle", join=[north.where], url=urls[1])
    south = BrokerProcess(folder, "south", join=[middle.where], url=urls[2])
    return [north, middle, south]


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest) -> Iterator[list[str | None]]:
    """Where three brokers have their stores: in folders, or in three databases of one server."""
    if request.param == "sqlite":
        yield [None, None, None]
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    databases = [server.new_database() for _ in range(3)]
    yield [server.url(database) for database in databases]
    for database in databases:
        server.drop(database)


def wait_joined(brokers: list[BrokerProcess]) -> None:
    """Wait until each reaches all."""
    for broker in brokers:
        wait(lambda broker=broker: broker.sees(len(brokers)), 20, lambda broker=broker: broker.log[-2_000:])  # type: ignore[misc]


def wait_for(broker: BrokerProcess, key: str, expected: set[str], seconds: float = 20.0) -> list[str]:
    """Take from a subscription until it had all that was expected; what came."""
    results: list[str] = []

    def has_all() -> bool:
        results.extend(one for one in broker.take(key) if not one.startswith(PROBE))
        return expected <= set(results)

    wait(
        has_all, seconds, lambda: f"{broker.name} misses {sorted(expected - set(results))[:10]}: {broker.log[-1_500:]}"
    )
    return results


def publish(broker: BrokerProcess, number: int) -> None:
    """Publish a message, again and again until it is accepted, as a careful publisher does."""
    wait(lambda: broker.publish(message(number), f"m{number}"), 30, lambda: broker.log[-1_000:])


def wait_wanted(brokers: Sequence[BrokerProcess], subscriber: BrokerProcess, key: str, body: str) -> None:
    """Wait until each broker knows that a subscription wants messages like this one: one that it publishes arrives.

    `wait_for` leaves these messages out.
    """
    for broker in brokers:
        name = f"{PROBE}-{key}-{subscriber.name}-{broker.name}"
        number = itertools.count()

        def arrives(broker: BrokerProcess = broker, name: str = name, number: Iterator[int] = number) -> bool:
            broker.publish(body, f"{name}-{next(number)}")
            return any(one.startswith(name) for one in subscriber.take(key))

        wait(arrives, 20, lambda broker=broker: broker.log[-1_000:])  # type: ignore[misc]


def ids(*numbers: int) -> set[str]:
    return {f"m{number}" for number in numbers}


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """Three brokers in a row, for tests that leave them at work; subscriptions and messages are each test's own."""
    brokers = chain(tmp_path_factory.mktemp("joined"))
    with running(*brokers):
        wait_joined(brokers)
        yield brokers


def test_everything_arrives_where_it_is_wanted(joined: list[BrokerProcess]) -> None:
    brokers = north, _, south = joined
    for position, broker in enumerate(brokers):
        broker.subscribe("mine", f"//item[@kind = 'k{position}']")
    south.subscribe("later", "//item[@n >= 100 and @n < 1000]")
    for position, broker in enumerate(brokers):
        wait_wanted(brokers, broker, "mine", f"<item kind='k{position}'/>")
    wait_wanted(brokers, south, "later", "<item n='999'/>")
    for number in range(120):
        publish(brokers[number % 3], number)
    for position, broker in enumerate(brokers):
        expected = ids(*(n for n in range(120) if n % 4 == position))
        results = wait_for(broker, "mine", expected)
        assert sorted(results) == sorted(expected)
    assert sorted(wait_for(south, "later", ids(*range(100, 120)))) == sorted(ids(*range(100, 120)))
    # What nobody on a way wants does not go it.
    assert north.overlay()["unwanted"] == south.overlay()["unwanted"] == 0
    route = south.ask("GET", "/overlay/messages/1").json()
    assert route["passed"][-1] == "south"
    started = time.monotonic()
    south.subscribe("new", "//unheard-of")
    wait(lambda: north.publish("<unheard-of/>", f"n{time.monotonic()}") and south.take("new"), 5)
    # On a busy machine; benchmarks measure what it takes on a quiet one.
    assert time.monotonic() - started < 2.0 * PATIENCE


def test_nothing_is_lost_by_kills(tmp_path: Path, urls: list[str | None]) -> None:
    """Brokers are killed at random moments under load, and started again."""
    seed = seed_or(1)
    print(f"seed {seed}")
    chance = random.Random(seed)
    brokers = chain(tmp_path, urls)
    over = threading.Event()
    counts = [0, 0, 0]

    def load(position: int) -> list[int]:
        published: list[int] = []
        while not over.wait(0.01):
            published.append(position + 3 * len(published))
            publish(brokers[position], published[-1])
            counts[position] += 1
        return published

    def wait_published(messages: int) -> None:
        upto = sum(counts) + messages
        wait(lambda: sum(counts) >= upto)

    with running(*brokers):
        wait_joined(brokers)
        for broker in brokers:
            broker.subscribe("all", "//item[@kind = 'k0' or @kind = 'k1']")
        for broker in brokers:
            wait_wanted(brokers, broker, "all", "<item kind='k0'/>")
        with ThreadPoolExecutor(3) as pool:
            loads = [pool.submit(load, position) for position in range(3)]
            try:
                for _ in range(4):
                    wait_published(chance.randint(30, 150))
                    victim = chance.choice(brokers)
                    victim.kill()
                    wait_published(chance.choice([0, 40]))
                    victim.start()
                wait_published(40)
            finally:
                over.set()
            published = [number for one in loads for number in one.result()]
        for broker in brokers:
            broker.wait_ready()
        expected = ids(*(n for n in published if n % 4 < 2))
        assert len(expected) > 50
        for broker in brokers:
            results = Counter(wait_for(broker, "all", expected, 30))
            assert results.keys() == expected
            assert max(results.values()) == 1


def test_a_killed_broker_serves_its_subscribers_again_at_once(joined: list[BrokerProcess]) -> None:
    north, _, south = joined
    south.subscribe("killed", "//item[@n >= 1000 and @n < 2000]")
    wait_wanted([north], south, "killed", "<item n='1999'/>")
    publish(north, 1_000)
    wait_for(south, "killed", ids(1_000))
    south.kill()
    numbers = range(1_001, 1_050)
    for number in numbers:
        publish(north, number)
    started = time.monotonic()
    south.start()
    south.wait_ready()
    assert sorted(wait_for(south, "killed", ids(*numbers))) == sorted(ids(*numbers))
    seconds = time.monotonic() - started
    print(f"served again after {seconds:.2f} s")
    assert seconds < 10 * PATIENCE


def test_nothing_is_lost_by_cut_links(tmp_path: Path) -> None:
    chance = random.Random(7)
    north = BrokerProcess(tmp_path, "north")
    with proxied(north) as first:
        middle = BrokerProcess(tmp_path, "middle", join=[first.where])
        with proxied(middle) as second:
            south = BrokerProcess(tmp_path, "south", join=[second.where])
            brokers = [north, middle, south]
            with running(*brokers):
                wait_joined(brokers)
                for broker in brokers:
                    broker.subscribe("all", "//item")
                for broker in brokers:
                    wait_wanted(brokers, broker, "all", "<item/>")
                number = 0
                for _ in range(5):
                    for _ in range(20):
                        publish(chance.choice(brokers), number)
                        number += 1
                    link = chance.choice([first, second])
                    link.is_open = chance.random() < 0.5
                    link.cut()
                    for _ in range(10):
                        publish(chance.choice(brokers), number)
                        number += 1
                    link.is_open = True
                expected = ids(*range(number))
                for broker in brokers:
                    assert sorted(wait_for(broker, "all", expected)) == sorted(expected)


@contextmanager
def proxied(broker: BrokerProcess) -> Iterator[Proxy]:
    """A proxy in front of a broker."""
    result = Proxy((broker.host, broker.overlay_port))
    try:
        yield result
    finally:
        result.close()


def test_a_slow_link_is_broken_off_and_what_it_did_not_take_comes_later(tmp_path: Path) -> None:
    north = BrokerProcess(tmp_path, "north", settings=[f"overlay_queue_bytes_max={1 << 20}"])
    with proxied(north) as proxy:
        south = BrokerProcess(tmp_path, "south", join=[proxy.where])
        with running(north, south):
            wait_joined([north, south])
            south.subscribe("all", "//item")
            wait_wanted([north], south, "all", "<item/>")
            # Less than is published on a machine that has much else to do, too.
            proxy.bytes_a_second = 40_000
            text = "x" * 30_000
            for number in range(150):
                body = f"<feed><item n='{number}'>{text}</item></feed>"
                wait(lambda body=body, number=number: north.publish(body, f"m{number}"))  # type: ignore[misc]
            wait(lambda: north.overlay()["trouble_counts"].get("slow"), 15, lambda: north.log[-2_000:])
            proxy.bytes_a_second = None
            proxy.cut()
            assert sorted(wait_for(south, "all", ids(*range(150)), 30)) == sorted(ids(*range(150)))
            assert "kind=slow" in north.log


def test_brokers_with_certificates_and_one_without_the_right_one(tmp_path: Path) -> None:
    authority = trustme.CA()

    def secured(name: str, by: trustme.CA) -> list[str]:
        files = certificates(tmp_path, name, by)
        return [f"overlay_cert={files.certificate}", f"overlay_key={files.key}", f"overlay_ca={files.authority}"]

    north = BrokerProcess(tmp_path, "north", settings=secured("north", authority))
    south = BrokerProcess(tmp_path, "south", join=[north.where], settings=secured("south", authority))
    liar = BrokerProcess(tmp_path, "liar", join=[north.where], settings=secured("other", authority))
    stranger = BrokerProcess(tmp_path, "stranger", join=[north.where], settings=secured("stranger", trustme.CA()))
    with running(north, south, liar, stranger):
        wait_joined([north, south])
        south.subscribe("all", "//item")
        wait_wanted([north], south, "all", "<item/>")
        publish(north, 1)
        wait_for(south, "all", ids(1))
        assert all(link["secure"] for link in north.overlay()["links"])
        wait(lambda: north.overlay()["trouble_counts"].get("certificate"))
        wait(lambda: stranger.overlay()["not_reached"][0]["reason"])
        assert "certificates do not fit" in stranger.overlay()["not_reached"][0]["reason"]
        assert "it calls itself liar, and its certificate holds" in north.log
        assert north.is_linked("south")


def test_two_brokers_on_copies_of_one_store(tmp_path: Path) -> None:
    north = BrokerProcess(tmp_path, "north")
    south = BrokerProcess(tmp_path, "south", join=[north.where])
    with running(north, south):
        wait_joined([north, south])
        south.subscribe("all", "//item")
        south.stop()
        shutil.copytree(south.store, tmp_path / "copy")
        south.start()
        south.wait_ready()
        wait_joined([north, south])
        # Starts are told apart by the second.
        started = int(time.time())
        wait(lambda: int(time.time()) > started)
        twin = BrokerProcess(tmp_path, "south", join=[north.where], store="copy")
        with running(twin):
            # The later start is linked, the earlier one is told so, and nobody ends.
            wait(lambda: "later start of south is linked already" in south.log, 15, lambda: north.log[-2_000:])
            wait(lambda: north.is_linked("south"))
            publish(north, 1)
            wait_for(twin, "all", ids(1))
            assert north.is_running
            assert south.is_running


def test_a_broker_that_stands_still_holds_up_nobody_else(joined: list[BrokerProcess]) -> None:
    north, middle, south = joined
    for broker in (middle, south):
        broker.subscribe("still", "//item[@n >= 2000]")
        wait_wanted([north], broker, "still", "<item n='9999'/>")
    numbers = range(2_000, 2_030)
    south.pause(on=True)
    for number in numbers:
        publish(north, number)
    wait_for(middle, "still", ids(*numbers), 10)
    south.pause(on=False)
    assert sorted(wait_for(south, "still", ids(*numbers))) == sorted(ids(*numbers))


# --- network namespaces -----------------------------------------------------------------------------------------------


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def cable() -> Iterator[str]:
    """A network namespace and a cable to it: its name. Ours is 10.213.47.1, its 10.213.47.2."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces are made by root only")
    if shutil.which("ip") is None:
        pytest.skip("there is no program ip (iproute2)")
    name = f"onyx{os.getpid() % 10_000}"
    created = ip("netns", "add", name)
    if created.returncode != 0:
        pytest.skip(f"no network namespace can be made here: {created.stderr.strip()}")
    try:
        for arguments in (
            ("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name),
            ("addr", "add", "10.213.47.1/30", "dev", f"{name}a"),
            ("link", "set", f"{name}a", "up"),
            ("-n", name, "addr", "add", "10.213.47.2/30", "dev", f"{name}b"),
            ("-n", name, "link", "set", f"{name}b", "up"),
            ("-n", name, "link", "set", "lo", "up"),
        ):
            done = ip(*arguments)
            if done.returncode != 0:
                pytest.skip(f"no cable can be laid to a network namespace here: {done.stderr.strip()}")
        yield name
    finally:
        ip("link", "del", f"{name}a")
        ip("netns", "del", name)


def test_nothing_is_lost_by_a_cable_that_is_pulled(tmp_path: Path, cable: str) -> None:
    """No connection is ended then, packets are simply gone: silence is all that the brokers notice."""
    insist = ["overlay_insecure=true"]
    north = BrokerProcess(tmp_path, "north", host="10.213.47.1", settings=insist)
    south = BrokerProcess(
        tmp_path,
        "south",
        host="10.213.47.2",
        join=[north.where],
        settings=insist,
        prefix=["ip", "netns", "exec", cable],
    )
    with running(north, south):
        wait_joined([north, south])
        for broker in (north, south):
            broker.subscribe("all", "//item")
        for broker in (north, south):
            wait_wanted([north, south], broker, "all", "<item/>")
        for number in range(10):
            publish((north, south)[number % 2], number)
        ip("link", "set", f"{cable}a", "down")
        for number in range(10, 40, 2):
            publish(north, number)
        wait(lambda: not north.overlay()["links"], 15)
        ip("link", "set", f"{cable}a", "up")
        wait_joined([north, south])
        expected = ids(*range(10), *range(10, 40, 2))
        for broker in (north, south):
            assert sorted(wait_for(broker, "all", expected)) == sorted(expected)
