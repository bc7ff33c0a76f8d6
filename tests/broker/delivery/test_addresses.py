"""What the broker may talk to, and that it talks to what it judged."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import random
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.broker.delivery.receiver import Got, Receiver, Reply
from tests.seeds import printed_seed
from twigcast.broker.delivery.addresses import Resolver, UnresolvedHost, UrlPolicy, is_public, parse_url
from twigcast.broker.delivery.http_client import HttpClient, RequestFailed, ResponseTooLarge, Timeouts
from twigcast.broker.errors import UrlRefused
from twigcast.broker.feed_addresses import Capabilities, FeedName
from twigcast.broker.logs import without_secrets

PRIVATE = """127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    100.127.255.255 0.0.0.0 0.1.2.3 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 192.0.0.1 192.0.2.1 198.18.0.1
    198.51.100.1 203.0.113.9 192.88.99.1 :: ::1 fe80::1 febf::1 fc00::1 fdff::1 ff02::1 fec0::1 2001:db8::1
    2001::1 100::1 64:ff9b:1::1 3fff::1 5f00::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::ffff:169.254.169.254
    64:ff9b::7f00:1 64:ff9b::a00:1 2002:7f00:1:: 2002:a00:1::1 2002:c0a8:101::"""
PUBLIC = "93.184.216.34 1.1.1.1 8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1"


def resolving(**hosts: list[str]) -> Resolver:
    async def resolver(host: str, port: int) -> list[str]:
        if host.replace(".", "_") in hosts:
            return hosts[host.replace(".", "_")]
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            raise OSError("no such host") from None

    return resolver


def check(url: str, policy: UrlPolicy | None = None) -> str:
    policy = policy or UrlPolicy(
        resolver=resolving(good_example=["93.184.216.34"], bad_example=["10.0.0.1"], both_example=["1.1.1.1", "::1"])
    )
    return asyncio.run(policy.check(url))


@pytest.mark.parametrize("address", PRIVATE.split())
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(UrlRefused, match="public"):
        check(f"http://{host}/hook")


@pytest.mark.parametrize("address", PUBLIC.split())
def test_what_is_public_is_permitted(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_no_private_address_is_public_in_any_form() -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    private = [ipaddress.ip_network(n) for n in ("10.0.0.0/8", "127.0.0.0/8", "192.168.0.0/16", "169.254.0.0/16")]
    for _ in range(500):
        network = chance.choice(private)
        inner = int(network.network_address) + chance.randrange(network.num_addresses)
        for form in (
            ipaddress.IPv4Address(inner),
            ipaddress.IPv6Address((0xFFFF << 32) | inner),
            ipaddress.IPv6Address((0x64FF9B << 96) | inner),
            ipaddress.IPv6Address((0x2002 << 112) | (inner << 80) | chance.getrandbits(80)),
            ipaddress.IPv6Address(inner),
        ):
            assert not is_public(form), form


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://good.example/", "only http"),
        ("file:///etc/passwd", "only http"),
        ("//good.example/", "only http"),
        ("http:///path", "no host"),
        ("http://user:pw@good.example/", "credentials"),
        ("http://user@good.example/", "credentials"),
        ("http://good.example@bad.example/", "credentials"),
        ("http://2130706433/", "unusual form"),
        ("http://0x7f000001/", "unusual form"),
        ("http://0x7f.1/", "unusual form"),
        ("http://0177.0.0.1/", "unusual form"),
        ("http://127.1/", "unusual form"),
        ("http://017700000001/", "unusual form"),
        ("http://127.0.0.1./", "unusual form"),
        ("http://\uff11\uff12\uff17.0.0.1/", "public"),
        ("http://127\u30020\u30020\u30021/", "public"),
        ("http://good.example\\@bad.example/", "backslash"),
        ("http://good.example/ a", "white space"),
        ("http://good.example/\n", "white space"),
        ("http://good.example:0/", "port 0"),
        ("http://good.example:99999/", "no URL"),
        ("http://[::1/", "no URL"),
        ("http://[fe80::1%25eth0]/", "IPv6"),
        ("http://a..b/", "host name"),
        ("http://%31%32%37.0.0.1/", "host name"),
        ("http://good.example/" + "a" * 2_000, "longer"),
        ("http://bad.example/", "leads to no public address"),
        ("http://both.example/", "leads to no public address"),
        ("http://missing.example/", "does not resolve"),
        ("http://localhost/", "does not resolve"),
    ],
)
def test_refused_urls_say_why(url: str, reason: str) -> None:
    with pytest.raises(UrlRefused, match=reason):
        check(url)


def test_what_is_permitted_comes_back_in_one_form() -> None:
    assert check("HTTP://GOOD.example:80/a?b=c#d") == "http://good.example/a?b=c"
    assert check("https://good.example:443") == "https://good.example/"
    assert parse_url("http://b\u00fccher.example/").hostname == "xn--bcher-kva.example"


def test_operators_permit_hosts_networks_or_all() -> None:
    resolver = resolving(bad_example=["10.0.0.1"], inner_example=["10.9.0.1"])
    policy = UrlPolicy.of(permitted=["Bad.Example", "10.9.0.0/16", "fd00::/8", "192.168.1.7"])
    policy = UrlPolicy(policy.allow_private, policy.hosts, policy.networks, resolver)
    check("http://bad.example/", policy)
    check("http://inner.example/", policy)
    check("http://[fd00::1]/", policy)
    check("http://[::ffff:10.9.1.1]/", policy)
    check("http://192.168.1.7/", policy)
    for url in ("http://192.168.1.8/", "http://10.0.0.1/", "http://[::1]/"):
        with pytest.raises(UrlRefused):
            check(url, policy)
    check("http://127.0.0.1/", UrlPolicy(allow_private=True))


def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    """The resolver answers with something else each time (DNS rebinding); it is asked once for each connection."""
    answers: list[list[str]] = []
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    async def run() -> None:
        async with Receiver() as receiver:
            policy = UrlPolicy(networks=(ipaddress.ip_network("127.0.0.1/32"),), resolver=rebinding)
            http_client = HttpClient(policy, timeouts=Timeouts(connect=2, read=2, total=5))
            url = f"http://rebinding.example:{receiver.port}/"
            answers[:] = [["127.0.0.1"], ["127.0.0.2"]]
            await policy.check(url)
            with pytest.raises(UrlRefused):
                await http_client.request("GET", url, answer_bytes_max=100)
            assert receiver.got == []
            answers[:] = [["127.0.0.1"], ["127.0.0.2"]]
            answer = await http_client.request("GET", url, answer_bytes_max=100)
            assert answer.status == 200
            assert receiver.got[0].headers["host"] == f"rebinding.example:{receiver.port}"
            assert len(asked) == 3
            await http_client.aclose()

    asyncio.run(run())


def test_redirects_are_judged_like_requests() -> None:
    def reply(got: Got) -> Reply:
        positions = {"/in": "http://127.0.0.2:1/", "/file": "file:///etc/passwd", "/ok": "/done", "/loop": "/loop"}
        position = positions.get(got.path)
        return Reply(302, {"Location": position}) if position else Reply(body=b"done")

    async def run() -> None:
        async with Receiver(reply) as receiver:
            http_client = HttpClient(UrlPolicy.of(permitted=["127.0.0.1"]))
            for path in ("/in", "/file"):
                with pytest.raises(UrlRefused):
                    await http_client.request("GET", receiver.url + path, answer_bytes_max=100, redirects=True)
            answer = await http_client.request("GET", receiver.url + "/ok", answer_bytes_max=100, redirects=True)
            assert (answer.url, answer.body) == (receiver.url + "/done", b"done")
            answer = await http_client.request("GET", receiver.url + "/ok", answer_bytes_max=100)
            assert answer.status == 302
            with pytest.raises(RequestFailed, match="redirects"):
                await http_client.request("GET", receiver.url + "/loop", answer_bytes_max=100, redirects=True)
            await http_client.aclose()

    asyncio.run(run())


def test_answers_are_bounded_packed_and_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))

    def reply(got: Got) -> Reply:
        if got.path == "/bomb":
            return Reply(headers={"Content-Encoding": "gzip"}, body=bomb)
        if got.path == "/cut":
            return Reply(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"abc" * 1000)[:-9])
        if got.path == "/small":
            return Reply(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"abc"))
        return Reply(body=b"x" * 100_000)

    async def run() -> None:
        async with Receiver(reply) as receiver:
            http_client = HttpClient(UrlPolicy(allow_private=True))
            for path in ("/bomb", "/large"):
                with pytest.raises(ResponseTooLarge):
                    await http_client.request("GET", receiver.url + path, answer_bytes_max=50_000)
                answer = await http_client.request("GET", receiver.url + path, answer_bytes_max=50_000, cut=True)
                assert len(answer.body) == 50_000
            with pytest.raises(RequestFailed, match="middle"):
                await http_client.request("GET", receiver.url + "/cut", answer_bytes_max=50_000)
            answer = await http_client.request("GET", receiver.url + "/small", answer_bytes_max=3)
            assert answer.body == b"abc"
            await http_client.aclose()

    asyncio.run(run())


def test_a_name_that_hangs_in_the_resolver_fails_like_one_that_is_not_there() -> None:
    async def run() -> None:
        policy = UrlPolicy(resolver=resolving())
        with pytest.raises(UnresolvedHost):
            await policy.addresses("nowhere.example", 80)
        http_client = HttpClient(policy)
        with pytest.raises(RequestFailed, match="does not resolve"):
            await http_client.request("GET", "http://nowhere.example/", answer_bytes_max=10)
        await http_client.aclose()

    asyncio.run(run())


def test_tls_verifies_the_name_although_the_connection_goes_to_an_address(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=x", *curve]
    more = ["-addext", "subjectAltName=DNS:hooks.example", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *more], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)

    async def run() -> None:
        async with Receiver(tls=server) as receiver:
            policy = UrlPolicy(
                allow_private=True, resolver=resolving(hooks_example=["127.0.0.1"], other_example=["127.0.0.1"])
            )
            http_client = HttpClient(policy, ssl_context=ssl.create_default_context(cafile=str(certificate)))
            answer = await http_client.request("GET", f"https://hooks.example:{receiver.port}/", answer_bytes_max=10)
            assert answer.status == 200
            for host in ("other.example", "127.0.0.1"):
                with pytest.raises(RequestFailed, match="certificate"):
                    await http_client.request("GET", f"https://{host}:{receiver.port}/", answer_bytes_max=10)
            await http_client.aclose()

    asyncio.run(run())


def test_logs_do_not_tell_addresses_of_feeds() -> None:
    path = Capabilities(bytes(32)).path(FeedName("subscriptions", 12, "k", 5))
    reported = without_secrets(f'GET {path} and "{path}"')
    assert reported == 'GET /feeds/.../subscriptions/k and "/feeds/.../subscriptions/k"'
