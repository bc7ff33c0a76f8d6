"""Tokens that are bound to client certificates, behind a proxy that ends TLS and checks these."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
import websockets.sync.client

from tests.broker.api.running import Party, RunningBroker, check_problem
from twigcast.broker.proxies import fingerprint
from twigcast.cli.client.connection import RefusedByBroker, connected
from twigcast.cli.client.profiles import BrokerFlags, ProfileError
from twigcast.client import Client

PROXY = "127.0.0.2"
"""The address of the proxy, so that the tests themselves, at 127.0.0.1, are no trusted proxy."""

FIELD = b"client-cert"


class Certificate:
    """A certificate that signs itself, with its key."""

    def __init__(self, folder: Path, name: str) -> None:
        self.cert, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
                *("-keyout", str(self.key), "-out", str(self.cert), "-days", "2", "-subj", f"/CN={name}"),
                *("-addext", "subjectAltName=DNS:localhost"),
            ],
            check=True,
            capture_output=True,
        )
        shown = ["openssl", "x509", "-in", str(self.cert), "-noout", "-fingerprint", "-sha256"]
        line = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
        self.shown = line.partition("=")[2].strip()
        """Its fingerprint, as OpenSSL shows it."""

    @property
    def fingerprint(self) -> str:
        return self.shown.replace(":", "").lower()


class TlsProxy:
    """A proxy that ends TLS: it asks clients for certificates, and tells the broker which one each has shown."""

    def __init__(self, broker: RunningBroker, own: Certificate, known: list[Certificate]) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(own.cert, own.key)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        for one in known:
            self.context.load_verify_locations(one.cert)
        self.own = own
        self._target = broker.url.removeprefix("http://").split(":")
        self._port: Future[int] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), name="tests-proxy")
        self._thread.start()
        self.port = self._port.result(10)
        self.url = f"https://localhost:{self.port}"

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self._port.set_result(server.sockets[0].getsockname()[1])
        await self._over.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target
        inner = await asyncio.open_connection(host, int(port), local_addr=(PROXY, 0))
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        # One request a connection: what follows its head is passed on as it is.
        kept = [line for line in lines if not line.lower().startswith((FIELD + b":", b"connection: keep-alive"))]
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if der:
            kept.append(b"Client-Cert: :" + base64.b64encode(der) + b":")
        if not any(line.lower().startswith(b"upgrade:") for line in lines):
            kept.append(b"Connection: close")
        inner[1].write(b"\r\n".join(kept) + b"\r\n\r\n")
        await asyncio.gather(_pass(reader, inner[1]), _pass(inner[0], writer))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def context_of(self, shown: Certificate | None) -> ssl.SSLContext:
        """What a client needs to trust the proxy, and to show a certificate."""
        result = ssl.create_default_context(cafile=str(self.own.cert))
        if shown is not None:
            result.load_cert_chain(shown.cert, shown.key)
        return result

    def client(self, secret: str, shown: Certificate | None, **headers: str) -> httpx2.Client:
        everything = {"Authorization": f"Bearer {secret}", **headers}
        return httpx2.Client(base_url=self.url, headers=everything, verify=self.context_of(shown), timeout=20)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        # The other side is gone, as after each response.
        pass
    finally:
        writer.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: Certificate(folder, name) for name in ("proxy", "gauges", "other")}


@pytest.fixture
def broker(own_broker: Callable[..., RunningBroker]) -> RunningBroker:
    return own_broker(client_certificate_header="Client-Cert", trusted_proxies=PROXY)


@pytest.fixture
def proxy(broker: RunningBroker, certificates: dict[str, Certificate]) -> Iterator[TlsProxy]:
    result = TlsProxy(broker, certificates["proxy"], [certificates["gauges"], certificates["other"]])
    yield result
    result.stop()


def bound_token(party: Party, certificate: Certificate, *scopes: str) -> str:
    body = {"name": "bound", "scopes": list(scopes), "certificates": [certificate.shown]}
    created = party.ok("POST", "/tokens", 201, json=body)
    assert created["certificates"] == [certificate.fingerprint]
    result: str = created["token"]
    return result


def test_a_bound_token_opens_with_its_certificate_and_with_nothing_else(
    broker: RunningBroker, proxy: TlsProxy, certificates: dict[str, Certificate]
) -> None:
    party, gauges, other = broker.party(), certificates["gauges"], certificates["other"]
    party.subscribe("k", "/a")
    secret = bound_token(party, gauges, "publish", "subscribe")
    with proxy.client(secret, gauges) as http:
        assert http.get("/me").json()["token"]["certificates"] == [gauges.fingerprint]
        assert http.post("/messages", content="<a/>").status_code == 201
        assert len(http.get("/deliveries", params={"subscriber": "k"}).json()["deliveries"]) == 1
    forged = ":" + base64.b64encode(ssl.PEM_cert_to_DER_cert(gauges.cert.read_text())).decode() + ":"
    for shown, headers in ((None, {}), (other, {}), (other, {"Client-Cert": forged}), (None, {"Client-Cert": forged})):
        with proxy.client(secret, shown, **headers) as http:
            assert http.get("/ready").status_code == 200
            for answer in (http.get("/me"), http.post("/messages", content="<a/>")):
                assert "client certificate" in check_problem(answer, 401, "unauthorized")["detail"]
    # Not through the proxy: nobody else is believed.
    direct = {"Authorization": f"Bearer {secret}", "Client-Cert": forged}
    with httpx2.Client(base_url=broker.url, headers=direct, timeout=20) as http:
        check_problem(http.get("/me"), 401, "unauthorized")
        check_problem(http.post("/messages", content="<a/>"), 401, "unauthorized")
    # Other tokens need no certificate.
    assert party.ok("GET", "/me")["token"]["certificates"] is None


def test_streams_need_the_certificate_too(
    broker: RunningBroker, proxy: TlsProxy, certificates: dict[str, Certificate]
) -> None:
    party, gauges = broker.party(), certificates["gauges"]
    party.subscribe("k", "/a")
    party.publish("<a/>")
    secret = bound_token(party, gauges, "subscribe")
    subscriber = {"subscriber": "k"}
    with (
        proxy.client(secret, gauges) as http,
        http.stream("GET", "/deliveries/stream", params=subscriber) as stream,
    ):
        assert stream.status_code == 200
        assert any("<a/>" in line for line in stream.iter_lines())
    with proxy.client(secret, gauges) as http:
        ticket = http.post("/deliveries/tickets", json=subscriber).json()["ticket"]
    address = f"wss://localhost:{proxy.port}/deliveries/ws?subscriber=k&ticket={ticket}"
    with websockets.sync.client.connect(address, ssl=proxy.context_of(gauges)) as socket:
        assert "<a/>" in str(socket.recv(10))
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        websockets.sync.client.connect(address, ssl=proxy.context_of(certificates["other"]))
    assert refused.value.response.status_code == 401


def test_the_console_needs_the_certificate_on_each_page(
    broker: RunningBroker, proxy: TlsProxy, certificates: dict[str, Certificate]
) -> None:
    secret = bound_token(broker.party(), certificates["gauges"], "admin")
    with proxy.client("", certificates["gauges"]) as http:
        del http.headers["Authorization"]
        form = http.get("/console/sign-in").text
        mark = form.partition('name="csrf" value="')[2].partition('"')[0]
        body = {"token": secret, "csrf": mark, "next": ""}
        signed_in = http.post("/console/sign-in", data=body, headers={"Origin": proxy.url})
        assert signed_in.status_code == 303, signed_in.text
        assert http.get("/console/tokens").status_code == 200
        assert certificates["gauges"].fingerprint in http.get("/console/tokens").text
        cookies = http.cookies
    with proxy.client("", None) as http:
        del http.headers["Authorization"]
        http.cookies = cookies
        assert http.get("/console/tokens").status_code == 303, "to the page to sign in"


def test_clients_show_their_certificate(
    broker: RunningBroker, proxy: TlsProxy, certificates: dict[str, Certificate], tmp_path: Path
) -> None:
    party, gauges = broker.party(), certificates["gauges"]
    with Client(party.url, party.http.headers["Authorization"].removeprefix("Bearer ")) as client:
        created = client.create_token("feeder", ["publish", "admin"], certificates=[gauges.shown])
    assert created.certificates == [gauges.fingerprint]
    own = httpx2.Client(verify=proxy.context_of(gauges))
    with Client(proxy.url, created.token, http=own) as client:
        assert client.identity().token.certificates == [gauges.fingerprint]

    shown = "--ca", str(proxy.own.cert), "--cert", str(gauges.cert), "--cert-key", str(gauges.key)
    more = "add", "more", "--scope", "publish", "--certificate", gauges.shown, "--json"
    environment = os.environ | {"TWIGCAST_TOKEN": created.token, "TWIGCAST_URL": proxy.url, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "twigcast", "tenants", "tokens", *more, *shown]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["certificates"] == [gauges.fingerprint], done.stderr


def test_the_shell_says_what_is_wrong_with_a_certificate(
    broker: RunningBroker, proxy: TlsProxy, certificates: dict[str, Certificate], tmp_path: Path
) -> None:
    gauges, token_file = certificates["gauges"], tmp_path / "token"
    token_file.write_text(bound_token(broker.party(), gauges, "admin"))
    flags = BrokerFlags(url=proxy.url, token_file=token_file, ca=proxy.own.cert)
    with pytest.raises(RefusedByBroker, match="name it with --cert FILE"), connected(flags) as client:
        list(client.tokens())
    both = tmp_path / "both.pem"
    both.write_text(gauges.cert.read_text() + gauges.key.read_text())
    with connected(replace(flags, cert=both)) as client:
        assert len(list(client.tokens())) == 4
    with pytest.raises(ProfileError, match="cannot be read"), connected(replace(flags, cert=gauges.cert)):
        pass
    alone = replace(flags, cert_key=gauges.key)
    with pytest.raises(ProfileError, match="a key needs its certificate"), connected(alone):
        pass


def test_without_the_setting_a_bound_token_opens_nothing(
    own_broker: Callable[..., RunningBroker], certificates: dict[str, Certificate]
) -> None:
    broker = own_broker(trusted_proxies="127.0.0.1")
    secret = bound_token(broker.party(), certificates["gauges"], "subscribe")
    der = ssl.PEM_cert_to_DER_cert(certificates["gauges"].cert.read_text())
    headers = {"Authorization": f"Bearer {secret}", "Client-Cert": f":{base64.b64encode(der).decode()}:"}
    check_problem(httpx2.get(f"{broker.url}/me", headers=headers), 401, "unauthorized")


@pytest.mark.parametrize(
    "wrong", [["ab"], ["g" * 64], [], "ab", ["a" * 63 + "\n"], ["a" * 64] * 101, [1], [None], [["a" * 64]], 7]
)
def test_what_is_no_fingerprint_is_refused(party: Party, wrong: object) -> None:
    body = {"name": "x", "scopes": ["publish"], "certificates": wrong}
    party.problem("POST", "/tokens", 422, "invalid", json=body)


def test_proxies_write_certificates_in_several_forms(certificates: dict[str, Certificate]) -> None:
    pem, expected = certificates["gauges"].cert.read_text(), certificates["gauges"].fingerprint
    text = base64.b64encode(ssl.PEM_cert_to_DER_cert(pem)).decode()
    for form in (f":{text}:", text, quote(pem), quote(pem, safe="+/="), quote(text), pem.replace("\n", " ")):
        assert fingerprint(form.encode()) == expected, form
    for wrong in (
        b"",
        b":",
        b"::",
        b"AAAA",
        b"MIIB!",
        b"%zz",
        text[:-2].encode(),
        b"\xff",
        b"-----BEGIN CERTIFICATE-----",
    ):
        assert fingerprint(wrong) is None, wrong


def test_several_certificates_in_one_request_are_none(
    own_broker: Callable[..., RunningBroker], certificates: dict[str, Certificate]
) -> None:
    broker = own_broker(client_certificate_header="Client-Cert", trusted_proxies="127.0.0.1")
    secret = bound_token(broker.party(), certificates["gauges"], "subscribe")
    der = ssl.PEM_cert_to_DER_cert(certificates["gauges"].cert.read_text())
    field = "Client-Cert", f":{base64.b64encode(der).decode()}:"
    headers = [("Authorization", f"Bearer {secret}"), field]
    assert httpx2.get(f"{broker.url}/me", headers=headers).status_code == 200
    assert httpx2.get(f"{broker.url}/me", headers=[*headers, field]).status_code == 401
