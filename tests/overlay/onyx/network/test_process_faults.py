"""Real brokers in loops, with a registry, beside peers that do not fit, over cables that are pulled."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.overlay.onyx.network.network_fakes import FakeNode, driver, until
from tests.overlay.onyx.network.network_fakes import running as driving
from tests.overlay.onyx.network.processes import BrokerProcess, running, wait
from tests.overlay.onyx.network.test_links import STRANGER, packed, say
from tests.overlay.onyx.network.test_processes import ids, ip, message, publish, wait_for, wait_joined, wait_wanted
from tests.services.postgresql import PostgresqlServer
from twigcast.overlay.onyx.messages import PROTOCOL, StoredReport
from twigcast.overlay.onyx.network.greeting import Ready
from twigcast.overlay.onyx.network.tls import Target

pytestmark = pytest.mark.slow

REGISTRY = ["overlay_registry=north,middle,south"]


# --- loops ------------------------------------------------------------------------------------------------------------


def test_in_a_ring_everything_arrives_once_and_goes_round_a_broker_that_dies(tmp_path: Path) -> None:
    brokers: list[BrokerProcess] = []
    for name in ("north", "east", "south", "west"):
        brokers.append(BrokerProcess(tmp_path, name, join=[brokers[-1].where] if brokers else []))
    brokers[0].join.append(brokers[-1].where)
    north, _, south, west = brokers
    with running(*brokers):
        wait_joined(brokers)
        wait(lambda: all(len(broker.overlay()["links"]) == 2 for broker in brokers))
        for broker in brokers:
            broker.subscribe("all", "//item")
        for broker in brokers:
            wait_wanted(brokers, broker, "all", "<item/>")
        for number, broker in zip(range(40), cycle(brokers), strict=False):
            publish(broker, number)
        for broker in brokers:
            assert sorted(wait_for(broker, "all", ids(*range(40)))) == sorted(ids(*range(40)))
        # Whichever way north's messages take to south, one of the two between them dies.
        route = south.ask("GET", "/overlay/messages/1").json()["passed"]
        between = next(broker for broker in brokers if broker.name == (route[1] if len(route) == 3 else "east"))
        between.kill()
        others = [broker for broker in brokers if broker is not between]
        for number in range(40, 70):
            publish(others[number % 3], number)
        for broker in others:
            assert sorted(wait_for(broker, "all", ids(*range(40, 70)), 30)) == sorted(ids(*range(40, 70)))
        between.start()
        between.wait_ready()
        assert sorted(wait_for(between, "all", ids(*range(40, 70)), 30)) == sorted(ids(*range(40, 70)))
        assert not any(broker.overlay()["trouble_counts"].get("loop") for broker in (north, south, west))


# --- the registry -----------------------------------------------------------------------------------------------------


def register(broker: BrokerProcess, name: str, key: str | None = None, **more: Any) -> Any:
    headers = {} if key is None else {"Twigcast-Source-Key": key}
    return broker.ask("PUT", f"/overlay/sources/{name}", json=more, headers=headers, timeout=30)


def leading(holders: list[BrokerProcess]) -> BrokerProcess:
    """The one that leads, once one does."""
    results: list[BrokerProcess] = []

    def one_leads() -> bool:
        results[:] = [broker for broker in holders if broker.overlay()["registry"]["role"] == "leader"]
        return bool(results)

    wait(one_leads)
    return results[0]


def test_registered_sources_outlive_kills_of_those_that_hold_the_registry(
    tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    """One of the three keeps its part of the log in PostgreSQL, two in SQLite; a fourth holds nothing."""
    database = postgresql_server.new_database()
    url = postgresql_server.url(database)
    north = BrokerProcess(tmp_path, "north", settings=REGISTRY)
    middle = BrokerProcess(tmp_path, "middle", join=[north.where], settings=REGISTRY, url=url)
    south = BrokerProcess(tmp_path, "south", join=[middle.where, north.where], settings=REGISTRY)
    guest = BrokerProcess(tmp_path, "guest", join=[south.where, north.where])
    brokers = [north, middle, south, guest]
    keys: dict[str, str] = {}
    try:
        with running(*brokers):
            wait_joined(brokers)
            wait(lambda: len(guest.overlay()["links"]) == 2)
            for number in range(6):
                answer = register(guest, f"s{number}", dtd="<!ELEMENT feed ANY>")
                assert answer.status_code == 200, answer.text
                keys[f"s{number}"] = answer.json()["key"]
                if number in (1, 3):
                    # Whoever leads is killed, and comes back while others go on.
                    leader = leading([north, middle, south])
                    leader.kill()
                    during = register(guest, f"during{number}")
                    assert during.status_code == 200, during.text
                    leader.start()
                    leader.wait_ready()
                    wait(lambda: len(guest.overlay()["links"]) == 2)
            for broker in brokers:
                broker.kill()
            for broker in brokers:
                broker.start()
            for broker in brokers:
                broker.wait_ready()
            names = {*keys, "during1", "during3"}

            def all_known(broker: BrokerProcess) -> bool:
                return {one["name"] for one in broker.ask("GET", "/overlay/sources").json()["sources"]} == names

            for broker in brokers:
                wait(lambda broker=broker: all_known(broker))  # type: ignore[misc]
            wait_joined(brokers)
            assert register(guest, "s0", "sk_wrong").status_code == 403
            assert register(guest, "s0", keys["s0"], rate=7).status_code == 200
            root = guest.ask("GET", "/overlay/sources/s0").json()["root"]
            at = next(broker for broker in brokers if broker.name == root)
            other = next(broker for broker in brokers if broker.name != root)
            assert not at.publish(message(1), "m1", source="s0")
            assert at.overlay()["trouble_counts"]["source"] == 1
            assert "kind=source" in at.log
            shown = {"Twigcast-Source-Key": keys["s0"], "content-type": "application/xml"}
            for broker, status in ((at, 201), (other, 409)):
                sent = broker.ask("POST", "/messages?source=s0&id=m2", content=message(2).encode(), headers=shown)
                assert sent.status_code == status, sent.text
    finally:
        postgresql_server.drop(database)


# --- peers that do not fit --------------------------------------------------------------------------------------------


def test_strange_peers_are_refused_and_named_while_messages_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version, damaged frames, nonsense on a link, a clock two hours ahead: told, and nothing else happens."""
    north = BrokerProcess(tmp_path, "north")
    south = BrokerProcess(tmp_path, "south", join=[north.where])
    with running(north, south):
        wait_joined([north, south])
        south.subscribe("all", "//item")
        wait_wanted([north], south, "all", "<item/>")
        port = north.overlay_port

        async def visit() -> None:
            await say(port, packed(STRANGER._replace(version=(PROTOCOL[0] + 1, 0))))
            await say(port, packed(STRANGER)[:-3])
            await say(port, packed(STRANGER), packed(Ready()), packed(StoredReport(7, 7))[:-1])
            ahead = time.time
            monkeypatch.setattr(time, "time", lambda: ahead() + 7_200)
            node = FakeNode()
            wrong = driver("late", node=node, join=[Target("127.0.0.1", port, secure=False)])
            async with driving(wrong):
                await until(lambda: node.count("up"))
                for number in range(20):
                    await asyncio.to_thread(publish, north, number)
                await asyncio.to_thread(wait, lambda: "clock" in north.overlay()["trouble_counts"])
            monkeypatch.undo()

        asyncio.run(asyncio.wait_for(visit(), 60))
        counts = north.overlay()["trouble_counts"]
        assert counts["version"] == 1
        assert counts["frame"] == 2
        assert "speaks version" in north.log
        assert "ahead of ours" in north.log
        assert sorted(wait_for(south, "all", ids(*range(20)))) == sorted(ids(*range(20)))
        assert north.is_linked("south")


# --- cables -----------------------------------------------------------------------------------------------------------


class Triangle:
    """Three network namespaces, each joined to both others by a cable of its own.

    The broker in namespace *i* has the address 10.214.i.1 on loopback; packets to it go over the direct cable only, so
    that a cable that is pulled has no way round below the brokers.
    """

    def __init__(self) -> None:
        self.spaces = [f"tri{os.getpid() % 10_000}{letter}" for letter in "abc"]

    def lay(self) -> str | None:
        """Make it; what is in the way."""
        arguments: tuple[str, ...]
        for number, space in enumerate(self.spaces):
            for arguments in (
                ("netns", "add", space),
                ("-n", space, "link", "set", "lo", "up"),
                ("-n", space, "addr", "add", f"10.214.{number}.1/32", "dev", "lo"),
            ):
                if (done := ip(*arguments)).returncode:
                    return done.stderr.strip()
        for one, other in ((0, 1), (1, 2), (2, 0)):
            near, far = self.spaces[one], self.spaces[other]
            ends = [self.end(one, other), self.end(other, one)]
            steps = [
                ("link", "add", ends[0], "netns", near, "type", "veth", "peer", "name", ends[1], "netns", far),
                ("-n", near, "link", "set", ends[0], "up"),
                ("-n", far, "link", "set", ends[1], "up"),
                ("-n", near, "route", "add", f"10.214.{other}.1/32", "dev", ends[0], "src", f"10.214.{one}.1"),
                ("-n", far, "route", "add", f"10.214.{one}.1/32", "dev", ends[1], "src", f"10.214.{other}.1"),
            ]
            for arguments in steps:
                if (done := ip(*arguments)).returncode:
                    return done.stderr.strip()
        return None

    def end(self, one: int, other: int) -> str:
        """The end of a cable."""
        return f"c{one}{other}"

    def plug(self, one: int, other: int, *, on: bool) -> None:
        """Pull a cable, or plug it in; a route goes with the device that is down, and is to be laid again."""
        for near, far in ((one, other), (other, one)):
            space, end = self.spaces[near], self.end(near, far)
            ip("-n", space, "link", "set", end, "up" if on else "down")
            if on:
                route = (f"10.214.{far}.1/32", "dev", end, "src", f"10.214.{near}.1")
                ip("-n", space, "route", "replace", *route)

    def remove(self) -> None:
        for space in self.spaces:
            ip("netns", "del", space)


@pytest.fixture
def triangle() -> Iterator[Triangle]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces are made by root only")
    if shutil.which("ip") is None:
        pytest.skip("there is no program ip (iproute2)")
    created = Triangle()
    try:
        if (wrong := created.lay()) is not None:
            pytest.skip(f"no network namespaces can be joined here: {wrong}")
        yield created
    finally:
        created.remove()


class Inside(BrokerProcess):
    """A broker in a network namespace, asked from inside it, since there is no way to it from here."""

    def __init__(self, folder: Path, name: str, space: str, number: int, join: list[str]) -> None:
        prefix = ["ip", "netns", "exec", space]
        host = f"10.214.{number}.1"
        super().__init__(folder, name, host=host, join=join, settings=["overlay_insecure=true"], prefix=prefix)
        self.space = space

    def ask(self, method: str, path: str, **more: Any) -> Any:
        return _Answer(self._prefix, self._folder, self.name, f"http://{self.host}:{self.port}", method, path, more)

    def wait_ready(self, seconds: float = 30.0) -> None:
        wait(lambda: (self._folder / f"{self.name}.token").exists(), seconds, lambda: self.log[-2_000:])
        wait(lambda: self.ask("GET", "/ready").status_code == 200, seconds, lambda: self.log[-2_000:])


class _Answer:
    """An answer that curl got."""

    def __init__(
        self, prefix: list[str], folder: Path, name: str, base: str, method: str, path: str, more: dict[str, Any]
    ) -> None:
        import json
        from urllib.parse import urlencode

        token = (folder / f"{name}.token").read_text(encoding="ascii").strip()
        parameters = {key: str(value).lower() for key, value in more.get("params", {}).items()}
        url = f"{base}{path}?{urlencode(parameters)}"
        command = [*prefix, "curl", "-s", "-m", "30", "-X", method, "-w", "\n%{http_code}", url]
        headers = {"authorization": f"Bearer {token}", **more.get("headers", {})}
        data = more.get("content")
        if "json" in more:
            data, headers["content-type"] = json.dumps(more["json"]).encode(), "application/json"
        for key, value in headers.items():
            command += ["-H", f"{key}: {value}"]
        if data is not None:
            command += ["--data-binary", "@-"]
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        body, _, status = done.stdout.rpartition(b"\n")
        self.text = body.decode(errors="replace")
        self.status_code = int(status or 0)

    def json(self) -> Any:
        import json

        return json.loads(self.text)


def test_a_cable_that_is_pulled_is_gone_around(tmp_path: Path, triangle: Triangle) -> None:
    """The two at its ends cannot reach each other any more: the third passes on what they have for each other."""
    if shutil.which("curl") is None:
        pytest.skip("there is no program curl, which asks brokers inside a network namespace")
    brokers: list[BrokerProcess] = []
    for number, (name, space) in enumerate(zip(("north", "south", "east"), triangle.spaces, strict=True)):
        brokers.append(Inside(tmp_path, name, space, number, [broker.where for broker in brokers]))
    north, south, _ = brokers
    with running(*brokers):
        wait_joined(brokers)
        wait(lambda: all(len(broker.overlay()["links"]) == 2 for broker in brokers))
        for broker in brokers:
            broker.subscribe("all", "//item")
        for broker in brokers:
            wait_wanted(brokers, broker, "all", "<item/>")
        for number in range(9):
            publish(brokers[number % 3], number)
        triangle.plug(0, 1, on=False)
        for number in range(9, 27):
            publish(brokers[number % 3], number)
        for broker in brokers:
            assert sorted(wait_for(broker, "all", ids(*range(27)), 45)) == sorted(ids(*range(27)))
        wait(lambda: north.is_linked("east") and south.is_linked("east"))
        publish(north, 27)
        wait_for(south, "all", ids(27))
        triangle.plug(0, 1, on=True)
        wait(lambda: north.is_linked("east", "south"), 30)
        for number in range(28, 34):
            publish(brokers[number % 3], number)
        expected = ids(*range(28, 34))
        assert sorted(wait_for(south, "all", expected)) == sorted(expected)
