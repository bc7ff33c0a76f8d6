"""Links between drivers of one process, over real sockets: what joins two brokers, and what keeps them apart."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme

from tests.overlay.onyx.network.network_fakes import QUICK, FakeNode, certificates, driver, running, until
from twigcast.overlay.core import Effects, SetTimer
from twigcast.overlay.errors import CertificateError, NetworkError
from twigcast.overlay.onyx.messages import PROTOCOL, OverlayMessage, Span, StoredReport
from twigcast.overlay.onyx.network import frames, greeting, streams
from twigcast.overlay.onyx.network.dialer import Dialer
from twigcast.overlay.onyx.network.driver import Driver
from twigcast.overlay.onyx.network.greeting import GoAway, Greeting, Ready
from twigcast.overlay.onyx.network.reports import KINDS_MAX, LinkFaults
from twigcast.overlay.onyx.network.tls import Certificates, Target, is_loopback, proven_names, target_of


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def span(number: int, size: int = 10) -> Span:
    return Span(
        1, number - 1, number, OverlayMessage(1, number, "default", "s", str(number), "application/xml", b"x" * size)
    )


def kinds(one: Driver) -> set[str]:
    return set(one.troubles.counts)


def test_messages_arrive_in_order_in_both_directions() -> None:
    async def work() -> None:
        left, right = FakeNode(), FakeNode()
        a = driver("a", node=left)
        async with running(a):
            b = driver("b", node=right, join=[a])
            async with running(b):
                await until(lambda: left.count("up") and right.count("up"))
                right.answer = lambda sender, message: Effects([(sender, StoredReport(9, message.upto))], [], [])
                for number in range(1, 2_001):
                    a.act(Effects([(b.identity, span(number, 3_000))], [], []))
                await until(lambda: len(left.messages()) == 2_000)
                assert right.messages() == [span(number, 3_000) for number in range(1, 2_001)]
                assert left.messages() == [StoredReport(9, number) for number in range(1, 2_001)]
                await until(lambda: a.reports()[0].round_trip is not None)
                (report,) = a.reports()
                assert (report.name, report.dialed, report.secure) == ("b", False, False)
                assert report.skew is not None
                assert abs(report.skew) < 1
            await until(lambda: left.count("down"))
        assert left.events[0] == ("up", b.identity)
        assert left.events[-1] == ("down", b.identity)

    run(work())


def test_a_link_comes_back_with_its_broker() -> None:
    async def work() -> None:
        node = FakeNode()
        a = driver("a", node=node)
        async with running(a):
            port = a.port
            b = driver("b", join=[a])
            async with running(b):
                await until(lambda: node.count("up") == 1)
                await a.stop()
                await until(lambda: b.dials() and b.dials()[0].reason)
                assert not b.reports()
                a = driver("a", node=node, incarnation=2)
                a._listener.port = port or 0  # type: ignore[union-attr]
                await a.start()
                await until(lambda: node.count("up") == 2)
                assert not b.dials()
            await a.stop()

    run(work())


@pytest.mark.sleep
def test_two_that_dial_each_other_have_one_link() -> None:
    async def work() -> None:
        nodes = FakeNode(), FakeNode()
        for _ in range(5):
            await cross(nodes)

    run(work())


async def cross(nodes: tuple[FakeNode, FakeNode]) -> None:
    """Let two brokers dial each other at the same time."""
    a = driver("a", node=nodes[0])
    await a.start()
    b = driver("b", node=nodes[1], join=[a])
    await b.start()
    # As if it had been told of the other from the beginning.
    dialer = Dialer(Target("127.0.0.1", b.port or 0, secure=False), a.links, None)
    task = asyncio.create_task(dialer.run())
    await until(lambda: a.reports() and b.reports())
    await asyncio.sleep(0.3)
    assert len(a.reports()) == len(b.reports()) == 1
    assert a.reports()[0].dialed != b.reports()[0].dialed
    assert nodes[0].count("up") - nodes[0].count("down") == 1
    task.cancel()
    await asyncio.gather(a.stop(), b.stop())
    for node in nodes:
        node.events.clear()


def test_timers_go_off_and_messages_to_oneself_arrive() -> None:
    async def work() -> None:
        node, items = FakeNode(), list[Any]()
        a = driver("a", node=node, deliver=items.extend)
        async with running(a):
            a.act(Effects([(a.identity, StoredReport(1, 2))], [SetTimer(0.01, "again")], ["an item"]))
            await until(lambda: node.count("wake") >= 3 and node.count("message"))
            assert items == ["an item"]
        seen = node.count("wake")
        await asyncio.sleep(0.05)
        assert node.count("wake") == seen

    run(work())


# --- certificates -----------------------------------------------------------------------------------------------------


def test_brokers_with_certificates_of_one_authority_are_linked(tmp_path: Path) -> None:
    async def work() -> None:
        authority = trustme.CA()
        a = driver("north", certificates=certificates(tmp_path, "north", authority))
        async with running(a):
            b = driver("south", certificates=certificates(tmp_path, "south", authority), join=[a])
            async with running(b):
                await until(lambda: a.reports() and b.reports())
                assert a.reports()[0].secure
                assert b.reports()[0].secure
                assert not kinds(a) | kinds(b)

    run(work())


def test_a_broker_of_another_authority_is_not_linked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        node = FakeNode()
        a = driver("north", node=node, certificates=certificates(tmp_path, "north", trustme.CA()))
        async with running(a):
            b = driver("south", certificates=certificates(tmp_path, "south", trustme.CA()), join=[a])
            async with running(b):
                await until(lambda: greeting.CERTIFICATE in kinds(b))
                (dial,) = b.dials()
                assert "certificates do not fit" in (dial.reason or "")
            assert not node.events

    run(work())
    assert "certificates do not fit" in caplog.text


def test_who_shows_no_certificate_is_not_heard(tmp_path: Path) -> None:
    async def work() -> None:
        authority, node = trustme.CA(), FakeNode()
        a = driver("north", node=node, certificates=certificates(tmp_path, "north", authority))
        async with running(a):
            root = (tmp_path / "north-authority.pem").read_bytes()
            chosen = [("grpc.ssl_target_name_override", "north")]
            nothing_shown = grpc.ssl_channel_credentials(root)
            async with grpc.aio.secure_channel(f"127.0.0.1:{a.port}", nothing_shown, options=chosen) as channel:
                call = channel.stream_stream(streams.path_of("onyx"), streams.same, streams.same)()
                with pytest.raises(grpc.aio.AioRpcError):
                    await call.read()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{a.port}") as channel:
                call = channel.stream_stream(streams.path_of("onyx"), streams.same, streams.same)()
                with pytest.raises(grpc.aio.AioRpcError):
                    await call.read()
            assert not node.events

    run(work())


def test_a_name_must_be_in_the_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has a certificate of the authority can be itself, and nobody else: on both sides."""

    async def work() -> None:
        authority = trustme.CA()
        honest = driver("north", certificates=certificates(tmp_path, "north", authority))
        async with running(honest):
            liar = driver("south", certificates=certificates(tmp_path, "west", authority), join=[honest])
            async with running(liar):
                await until(lambda: greeting.CERTIFICATE in kinds(honest))
                assert not honest.reports()
        liar = driver("south", certificates=certificates(tmp_path, "east", authority))
        async with running(liar):
            honest = driver(
                "north", certificates=certificates(tmp_path, "north2", authority, names=["north"]), join=[liar]
            )
            async with running(honest):
                await until(lambda: greeting.CERTIFICATE in kinds(honest))
                assert not honest.reports()

    run(work())
    assert "it calls itself south" in caplog.text


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    missing = Certificates(tmp_path / "a.pem", tmp_path / "a.key", tmp_path / "ca.pem")
    with pytest.raises(CertificateError, match=r"ca\.pem: it cannot be read"):
        missing.for_listening()
    for path in (missing.certificate, missing.key, missing.authority):
        path.write_text("nonsense")
    with pytest.raises(CertificateError, match=r"ca\.pem: it holds no PEM"):
        missing.for_dialing()

    async def work() -> None:
        a = driver("a", join=[Target("127.0.0.1", 9, secure=True)])
        async with running(a):
            await until(lambda: greeting.CERTIFICATE in kinds(a))
            assert "has none" in (a.dials()[0].reason or "")

    run(work())


def test_addresses_of_brokers() -> None:
    assert target_of("grpcs://north.example.org:7400", secure=False) == Target("north.example.org", 7400, secure=True)
    assert target_of("grpc://127.0.0.1:1/", secure=True) == Target("127.0.0.1", 1, secure=False)
    assert target_of(" [::1]:7400", secure=True) == Target("::1", 7400, secure=True)
    assert str(Target("::1", 7400, secure=True)) == "grpcs://[::1]:7400"
    for wrong in ("http://a:1", "a", "a:", ":1", "a:0", "a:65536", "a/b:1", "u@a:1", "grpcs://", "a:x"):
        with pytest.raises(ValueError, match="north"):
            target_of(wrong, secure=True)
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.0.2.1")
    assert proven_names({}) is None
    assert proven_names({"transport_security_type": [b"ssl"], "x509_common_name": [b"n"]}) == frozenset({"n"})


# --- brokers that are refused -----------------------------------------------------------------------------------------


async def say(port: int | None, *said: bytes) -> list[Any]:
    """Send packets as they are, one after each answer; the answers."""
    answers: list[Any] = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(streams.path_of("onyx"), streams.same, streams.same)()
        for position in range(len(said) + 100):
            if position < len(said):
                await call.write(said[position])
            answer: object = await asyncio.wait_for(call.read(), 3)
            if not isinstance(answer, bytes):
                break
            answers += frames.read_packet(answer)
    return answers


def packed(*messages: Any) -> bytes:
    return frames.packet(map(frames.frame, messages))


STRANGER = Greeting(PROTOCOL, "stranger", bytes(16), 1, "", 0.0, "test")
LATER = PROTOCOL[0] + 1


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        ([packed(STRANGER._replace(version=(LATER, 0)))], greeting.VERSION, rf"speaks version {LATER}\.0"),
        ([b"nonsense"], greeting.FRAME, "no packet"),
        ([packed(STRANGER)[:-2]], greeting.FRAME, "damaged"),
        ([packed(Ready())], greeting.FRAME, "in place of a greeting"),
        ([packed(STRANGER, STRANGER)], greeting.FRAME, "2 messages"),
        ([packed(STRANGER), packed(StoredReport(1, 1))], greeting.FRAME, "accept the greeting"),
        ([packed(STRANGER._replace(name="a", instance=b"another store---"))], greeting.IDENTITY, "rename one"),
        ([packed(STRANGER._replace(name="a", instance=b"a---------------"))], greeting.IDENTITY, "copy of its store"),
    ],
)
def test_a_broker_that_does_not_fit_is_refused_and_named(
    said: list[bytes], kind: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def work() -> None:
        node = FakeNode()
        a = driver("a", node=node)
        async with running(a):
            answers = await say(a.port, *said)
            assert isinstance(answers[-1], GoAway)
            assert answers[-1].kind == kind
            assert a.troubles.counts == {kind: 1}
            assert not node.events
            # The next one is served as ever.
            b = driver("b", join=[a])
            async with running(b):
                await until(lambda: node.count("up"))

    run(work())
    with_reason = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(with_reason) == 1
    assert re.search(reason, with_reason[0].getMessage())


def test_nonsense_on_a_link_ends_it_and_is_named() -> None:
    async def work() -> None:
        node = FakeNode()
        a = driver("a", node=node)
        async with running(a):
            good = packed(StoredReport(7, 7))
            for bad in (b"\x01\x00\x00\x00\x00rubbish", good[:-1], b"", b"\x09" + good[1:]):
                node.events.clear()
                answers = await say(a.port, packed(STRANGER), packed(Ready()), good, bad)
                assert isinstance(answers[-1], GoAway)
                assert answers[-1].kind == greeting.FRAME
                assert "stranger sent what is no packet" in answers[-1].reason
                await until(lambda: node.count("down"))
                assert node.messages() == [StoredReport(7, 7)]
            assert a.troubles.counts == {greeting.FRAME: 4}

    run(work())


@pytest.mark.sleep
def test_of_two_brokers_on_copies_of_a_store_the_later_start_is_linked() -> None:
    async def work() -> None:
        node = FakeNode()
        a = driver("a", node=node)
        async with running(a):
            old = driver("b", join=[a], incarnation=1)
            async with running(old):
                await until(lambda: node.count("up") == 1)
                new = driver("b", join=[a], incarnation=2)
                async with running(new):
                    await until(lambda: greeting.SUPERSEDED in kinds(old) and greeting.SUPERSEDED in kinds(a))
                    await until(lambda: old.dials() and "later start" in (old.dials()[0].reason or ""))
                    await asyncio.sleep(0.3)
                    assert node.count("up") == 2
                    assert new.reports()
                    assert not old.reports()

    run(work())


def test_a_second_broker_of_a_name_is_refused_as_long_as_the_first_is_linked() -> None:
    async def work() -> None:
        node = FakeNode()
        a = driver("a", node=node)
        async with running(a):
            first = driver("b", join=[a])
            second = driver("b", join=[a], instance=b"of another store")
            async with running(first):
                await until(lambda: node.count("up") == 1)
                async with running(second):
                    await until(lambda: greeting.IDENTITY in kinds(second))
                    assert first.reports()
                    await first.stop()
                    await until(lambda: second.reports())
        assert [event[1] for event in node.events if event[0] == "up"] == [first.identity, second.identity]

    run(work())


def test_there_are_no_more_links_than_permitted() -> None:
    async def work() -> None:
        a = driver("a", settings=replace(QUICK, links_max=1))
        async with running(a):
            b, c = driver("b", join=[a]), driver("c", join=[a])
            async with running(b):
                await until(lambda: a.reports())
                async with running(c):
                    await until(lambda: greeting.CAPACITY in kinds(c))

    run(work())


def test_clocks_that_are_apart_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        a = driver("a", settings=replace(QUICK, skew_seconds=0.0))
        async with running(a):
            b = driver("b", join=[a])
            async with running(b):
                await until(lambda: "clock" in kinds(a))
                assert a.reports()

    run(work())


def test_kinds_that_others_make_up_are_counted_together() -> None:
    troubles = LinkFaults()
    for number in range(3 * KINDS_MAX):
        troubles.add(f"kind {number}", "north", "made up")
    troubles.add("kind 0", "north", "made up")
    assert len(troubles.counts) == KINDS_MAX + 1
    assert troubles.counts["kind 0"] == 2
    assert troubles.counts["other"] == 2 * KINDS_MAX


def test_an_address_that_is_taken_is_named() -> None:
    async def work() -> None:
        a = driver("a")
        async with running(a):
            b = driver("b")
            b._listener.port = a.port or 0  # type: ignore[union-attr]
            with pytest.raises(NetworkError, match="cannot listen for brokers"):
                await b.start()

    run(work())


# --- slow and silent neighbours ---------------------------------------------------------------------------------------


async def mute_neighbour(port: int | None, until_: asyncio.Event) -> None:
    """Greets as it should, and then takes nothing."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(streams.path_of("onyx"), streams.same, streams.same)()
        await call.write(packed(STRANGER))
        await call.read()
        await call.write(packed(Ready()))
        await until_.wait()
        call.cancel()


@pytest.mark.parametrize("by", ["bytes", "frames", "time"])
def test_a_slow_link_is_broken_off_with_bounded_memory(by: str) -> None:
    async def work() -> None:
        limits = {
            "bytes": replace(QUICK, queue_bytes_max=1 << 20),
            "frames": replace(QUICK, queue_frames_max=50),
            "time": replace(QUICK, stall_seconds=0.3, silence_seconds=60),
        }
        node, over = FakeNode(), asyncio.Event()
        a = driver("a", node=node, settings=limits[by])
        async with running(a):
            neighbour = asyncio.create_task(mute_neighbour(a.port, over))
            await until(lambda: node.count("up"))
            highest = 0
            for number in range(1, 400):
                a.act(Effects([(STRANGER.identity, span(number, 64 << 10))], [], []))
                highest = max(highest, *(report.queue_bytes for report in a.reports()), 0)
                await asyncio.sleep(0.002)
                if node.count("down"):
                    break
            await until(lambda: node.count("down"))
            assert a.troubles.counts == {greeting.SLOW: 1}
            if by == "bytes":
                assert highest <= (1 << 20) + (65 << 10)
            over.set()
            await neighbour

    run(work())


def test_a_silent_link_is_broken_off() -> None:
    async def work() -> None:
        node, over = FakeNode(), asyncio.Event()
        a = driver("a", node=node, settings=replace(QUICK, silence_seconds=0.3))
        async with running(a):
            neighbour = asyncio.create_task(mute_neighbour(a.port, over))
            await until(lambda: node.count("down"))
            assert a.troubles.counts == {greeting.SILENT: 1}
            over.set()
            await neighbour

    run(work())
