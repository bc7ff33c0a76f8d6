"""No request holds the event loop for long: every kind of request, as large and as odd as it may be."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

pytestmark = pytest.mark.alone

LAG_MS_MAX: Final = 20.0
TRIES: Final = 8
"""What holds the loop does so each time; what a busy machine adds does not."""

MESSAGES: Final = 300
SUBSCRIPTIONS: Final = 2_000
LARGE: Final = "<m><t>" + "text & more, ".replace("&", "&amp;") * 2_000 + "</t></m>"


class Watched:
    """A broker with much in it, and its event loop watched."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.api.watched", str(folder / "store")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        url, token = self._from.readline().split()
        self.http = httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        self._fill()
        self.lag()

    def _fill(self) -> None:
        lines = "".join(
            json.dumps({"key": f"k{n}", "query": f"//t[contains(., 'w{n}')] | //x[@n = '{n}']"}) + "\n"
            for n in range(SUBSCRIPTIONS)
        )
        lines += json.dumps({"key": "all", "query": "/m"}) + "\n"
        lines += "".join(
            json.dumps({"key": f"s{n}", "query": f"//t[contains(., 'n{n}')]", "subscriber": "team"}) + "\n"
            for n in range(500)
        )
        assert self.http.post("/subscriptions/import", content=lines, headers=JSON_LINES).status_code == 200
        for start in range(0, MESSAGES, 50):
            body = "".join(json.dumps({"xml": LARGE, "id": f"m{n}"}) + "\n" for n in range(start, start + 50))
            assert self.http.post("/messages", content=body, headers=JSON_LINES).status_code == 200
        for n in range(50):
            bad = self.http.post("/messages", content=LARGE[:-3] + f"<{n}", headers=XML)
            assert bad.status_code == 422
        skipped = self.http.post("/consumers/all/skip", json={"count": 50})
        assert skipped.status_code == 200, skipped.text

    def lag(self) -> float:
        """For how long something has held the loop since the last time, in milliseconds."""
        self._to.write("\n")
        self._to.flush()
        return float(self._from.readline())

    def longest(self, request: Callable[[httpx2.Client], object]) -> float:
        """For how long a request holds the loop, the least of some tries, each as on the machine of the figures."""
        results: list[float] = []
        for _ in range(TRIES):
            self.lag()
            request(self.http)
            # What was begun by the request may go on behind it.
            time.sleep(0.02)
            results.append(self.lag() / slowness())
            if results[-1] <= LAG_MS_MAX:
                break
        return min(results)

    def end(self) -> None:
        self.http.close()
        self._to.close()
        self._from.close()
        self._process.terminate()
        self._process.wait(30)


_WORK: Final = json.dumps({"ids": [f"{n}-1" for n in range(2_000)]})
_WORK_MS: Final = 9.5
"""What the work of :func:`slowness` takes on the machine of benchmarks/RESULTS.md, by itself."""


def slowness() -> float:
    """Returns how many times longer than on the machine of the figures something takes here and now."""
    began = time.perf_counter()
    for _ in range(60):
        list(map(str.encode, json.loads(_WORK)["ids"]))
        b"x" * (2 << 20)
    return max(1.0, 1e3 * (time.perf_counter() - began) / _WORK_MS)


XML: Final = {"Content-Type": "application/xml"}
JSON_LINES: Final = {"Content-Type": "application/x-ndjson"}
JSON: Final = {"Content-Type": "application/json"}

ODD_JSON: Final = [
    b"[" * 1_900_000,
    b"[" + b"[]," * 9_000 + b"[]]",
    b'{"ids":[' + b"1," * 25_000 + b"1]}",
    b'{"ids":[' + b'"1-1",' * 25_000 + b'"1-1"]}',
    b'{"query":"' + b"a or " * 300_000 + b'a","key":"k"}',
    b'{"xml":"<m>' + b"x" * 1_900_000 + b'</m>","query":"//m","key":"k"}',
    b'{"' + b'a":{"' * 25_000,
    b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(29_000)) + b"}",
    b"x" * 40_000_000,
]
"""Bodies for whatever takes JSON: deep, wide, long, too large, no JSON."""

PATHS: Final = {
    "seq": "5",
    "rejected": "5",
    "key": "all",
    "subscriber": "all",
    "name": "feed",
    "token": "x",
    "kind": "subscription",
}
"""What stands for the parameters of paths."""

QUERIES: Final[dict[tuple[str, str], dict[str, str]]] = {
    ("get", "/messages"): {"limit": "1000", "xml": "true"},
    ("get", "/rejected"): {"limit": "1000"},
    ("get", "/subscriptions"): {"limit": "1000"},
    ("get", "/deliveries"): {"subscriber": "all", "limit": "1000", "visibility": "0.01"},
    ("get", "/consumers"): {"limit": "1000"},
    ("get", "/dead-letters"): {"limit": "1000"},
    ("get", "/subscriptions/{key}/deliveries"): {"limit": "1000"},
    ("get", "/subscriptions/{key}/errors"): {"limit": "1000"},
}

NOT_ASKED: Final = {
    # It would go on for ever: see the test of its own.
    ("get", "/deliveries/stream"),
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    broker = Watched(tmp_path_factory.mktemp("watched"))
    yield broker
    broker.end()


def operations(watched: Watched) -> list[tuple[str, str, dict[str, Any]]]:
    """All operations of the API, as the description has them: a new one is among them by itself."""
    described = watched.http.get("/openapi.json").json()
    return [
        (method, path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def requests_to(method: str, path: str, operation: dict[str, Any]) -> list[Callable[[httpx2.Client], object]]:
    """Requests as large and as odd as an operation can get."""
    filled = path
    for name, value in PATHS.items():
        filled = filled.replace(f"{{{name}}}", value)
    assert "{" not in filled, f"PATHS lacks a parameter of {path}"
    params = QUERIES.get((method, path), {})
    kinds = operation.get("requestBody", {}).get("content", {})
    if not kinds:
        return [lambda http: http.request(method, filled, params=params)]
    sent: list[tuple[bytes, dict[str, str]]] = []
    if "application/json" in kinds:
        sent += [(body, JSON) for body in ODD_JSON]
    if "application/x-ndjson" in kinds:
        sent += [(body, JSON_LINES) for body in odd_lines(path)]
    if "application/xml" in kinds:
        sent += odd_messages()
    if "application/x-www-form-urlencoded" in kinds:
        form = "&".join(f"hub.topic{n}=a" for n in range(200_000)).encode()
        sent.append((form, {"Content-Type": "application/x-www-form-urlencoded"}))
    results: list[Callable[[httpx2.Client], object]] = [partial(send, method, filled, *one) for one in sent]
    assert results, f"no request is known for {sorted(kinds)}"
    return results


def send(method: str, path: str, body: bytes, head: dict[str, str], http: httpx2.Client) -> None:
    try:
        http.request(method, path, content=body, headers=head)
    except httpx2.TransportError:
        # A body that is too large is answered before it is read, and the connection closed.
        return


def odd_lines(path: str) -> list[bytes]:
    if path == "/messages":
        lines = [json.dumps({"xml": f"<m>{n}</m>", "id": f"b{n}"}).encode() for n in range(10_000)]
        one = json.dumps({"xml": "<m>" + "é" * 1_000_000 + "</m>"}).encode()
        return [
            b"\n".join(lines),
            one,
            b'{"xml":"' + b"x" * 30_000_000,
            b"\n" * 5_000_000,
            gzip.compress(b"\n" * 10**7),
        ]
    lines = [json.dumps({"key": f"i{n}", "query": f"//a[@n = '{n}']"}).encode() for n in range(6_000)]
    return [b"\n".join(lines), b"[]\n" * 20_000, b'{"key":"' + b"x" * 5_000_000]


def odd_messages() -> list[tuple[bytes, dict[str, str]]]:
    packed = {**XML, "Content-Encoding": "gzip"}
    empty = gzip.compress(b"")
    return [
        (b"<m>" + b"<a>text</a>" * 500_000 + b"</m>", XML),
        (b"<m>" + b"x" * 7_000_000 + b"</m>", XML),
        (("<?xml version='1.0' encoding='UTF-16'?><m>" + "é" * 4_000_000 + "</m>").encode("utf-16"), XML),
        (empty * 1_500_000, packed),
        (gzip.compress(b"<m>") + empty * 9_000 + gzip.compress(b"</m>"), packed),
        (gzip.compress(b"<m>" + b" " * 7_000_000 + b"</m>"), packed),
        (gzip.compress(b" " * 400_000_000), packed),
    ]


@pytest.mark.slow
def test_no_request_holds_the_event_loop(watched: Watched) -> None:
    found: dict[str, float] = {}
    for method, path, operation in operations(watched):
        if (method, path) in NOT_ASKED:
            continue
        for number, request in enumerate(requests_to(method, path, operation)):
            found[f"{method} {path} #{number}"] = watched.longest(request)
    too_long = {name: round(ms, 1) for name, ms in found.items() if ms > LAG_MS_MAX}
    assert not too_long, too_long
    assert len(found) > 60


@pytest.mark.slow
def test_questions_about_costly_queries_do_not_hold_it(watched: Watched) -> None:
    message = "<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(3_000)) + "</r>"
    query = "//a[following-sibling::a[position() mod 3 = 0]/@none]"
    assert watched.longest(lambda http: http.post("/explain", json={"query": query, "xml": message})) <= LAG_MS_MAX
    assert watched.longest(lambda http: http.post("/explain", json={"subscriber": "team", "xml": LARGE})) <= LAG_MS_MAX
    long = "//a[" + " or ".join(f"b = '{n}'" for n in range(1_500)) + "]"
    assert watched.longest(lambda http: http.post("/check", json={"query": long})) <= LAG_MS_MAX
    assert watched.longest(lambda http: http.put("/subscriptions/long", json={"query": long})) <= LAG_MS_MAX


LARGEST: Final = {
    "elements": b"<m>" + b"<a>text</a>" * 2_900_000 + b"</m>",
    "one text": b"<m>" + b"x" * 33_000_000 + b"</m>",
    "another encoding": b"<?xml version='1.0' encoding='latin-1'?><m>" + b"\xe9" * 16_000_000 + b"</m>",
    "UTF-16": ("<?xml version='1.0' encoding='UTF-16'?><m>" + "e" * 16_000_000 + "</m>").encode("utf-16"),
    "wrong UTF-16": ("<m>" + "e" * 16_000_000).encode("utf-16") + b"\x00\xd8</m>",
    "DOCTYPE": b"<!DOCTYPE m [<!ENTITY e 'x'>]><m>" + b"y" * 33_000_000 + b"&e;</m>",
    "long comment": b"<!--" + b"<!DOCTYP " * 3_600_000 + b"--><m/>",
    "malformed": b"<m>" + b"x" * 33_000_000 + b"</n>",
}
"""Messages as large as they may be by default."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGEST)
def test_the_largest_messages_do_not_hold_it(watched: Watched, kind: str) -> None:
    body = LARGEST[kind]
    assert len(body) < 32 << 20
    assert watched.longest(lambda http: http.post("/messages", content=body, headers=XML)) <= LAG_MS_MAX


@pytest.mark.slow
def test_batches_of_large_messages_do_not_hold_it(watched: Watched) -> None:
    line = json.dumps({"xml": "<m>" + "x" * 3_900_000 + "</m>"}).encode()
    body = b"\n".join([line] * 8)
    assert watched.longest(lambda http: http.post("/messages", content=body, headers=JSON_LINES)) <= LAG_MS_MAX


LARGEST_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "alternatives": {"query": "//a[" + " or ".join(f"b = '{n}'" for n in range(60_000)) + "]"},
    "a literal": {"query": f"//a[b = '{'x' * 990_000}']"},
    "a list": {"query": "//a[b = $l]", "params": {"l": [f"v{n}" for n in range(12_000)]}},
    "steps": {"query": "/a" * 490_000},
    "words": {"query": "//a[" + " and ".join(f"contains(., 'w{n}')" for n in range(40_000)) + "]"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGEST_QUERIES)
def test_the_largest_queries_do_not_hold_it(watched: Watched, kind: str) -> None:
    query = LARGEST_QUERIES[kind]
    assert watched.longest(lambda http: http.post("/check", json=query)) <= LAG_MS_MAX
    assert watched.longest(lambda http: http.put("/subscriptions/largest", json=query)) <= LAG_MS_MAX
    assert watched.longest(lambda http: http.get("/subscriptions/largest")) <= LAG_MS_MAX
    watched.http.delete("/subscriptions/largest")


@pytest.mark.slow
def test_a_stream_of_much_that_waits_does_not_hold_it(watched: Watched) -> None:
    def read(http: httpx2.Client) -> None:
        with http.stream("GET", "/deliveries/stream", params={"subscriber": "all", "ack": "manual"}) as response:
            size = 0
            for chunk in response.iter_bytes():
                size += len(chunk)
                if size > 5_000_000:
                    break

    assert watched.longest(read) <= LAG_MS_MAX


def test_the_watch_itself_notices_what_holds_a_loop() -> None:
    import asyncio

    from tests.broker.api.watched import LoopWatch

    async def play() -> float:
        watch = LoopWatch()
        beat = asyncio.create_task(watch.run())
        await asyncio.sleep(0.01)
        until = time.process_time() + 0.1
        while time.process_time() < until:
            sum(range(1_000))
        await asyncio.sleep(0.01)
        beat.cancel()
        return watch.longest

    assert asyncio.run(play()) > 0.05
