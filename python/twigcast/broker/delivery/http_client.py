"""HTTP requests to URLs by other parties: to checked addresses, in bounded time, with bounded responses.

``httpcore2`` makes the connections through a backend of ours, which resolves a host, judges the addresses and connects
to one of them. TLS still verifies the name. Proxies of the environment are not used, cookies not kept, and
redirects followed only on request, each then judged like the first URL.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote, urljoin, urlunsplit

import httpcore2

from twigcast._core import VERSION
from twigcast.broker.delivery.addresses import UnresolvedHost, UrlPolicy, parse_url

USER_AGENT: Final = f"twigcast/{VERSION}"

REDIRECTS_MAX: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOVED: Final = frozenset({301, 308})


class RequestFailed(Exception):
    """A request without a usable response: not connected, broken off, no HTTP, too slow, or refused by the server."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        """Seconds that the server asked to wait."""


class ResponseTooLarge(RequestFailed):
    """A response longer than the limit."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of the parts of a request, in seconds."""

    connect: float = 5.0
    read: float = 15.0
    """Time between two parts of the response, and before its start."""
    total: float = 30.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, or as much of it as was requested."""

    url: str
    """Address after redirects."""
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case; of repeated ones the last."""
    body: bytes = b""
    moved_to: str | None = None
    """Address to which the server moved the first one for good."""

    @property
    def is_success(self) -> bool:
        """Returns whether the status is 2xx."""
        return 200 <= self.status < 300


def parse_retry_after(value: str | None) -> float | None:
    """Returns the seconds of a ``Retry-After`` header, a number or a date; ``None`` if it is neither."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        return max(0.0, at.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """A backend that connects to the addresses that the policy has judged."""

    def __init__(self, policy: UrlPolicy) -> None:
        self._policy = policy
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._policy.addresses(host.strip("[]"), port)
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class HttpClient:
    """An HTTP client for one event loop. Redirects count as one request with the first."""

    def __init__(
        self,
        policy: UrlPolicy,
        *,
        timeouts: Timeouts | None = None,
        connections_max: int = 64,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = policy
        self._timeouts = timeouts or Timeouts()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context or ssl.create_default_context(),
            max_connections=connections_max,
            max_keepalive_connections=connections_max,
            keepalive_expiry=30.0,
            network_backend=_CheckedBackend(policy),
        )

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._pool.aclose()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_bytes_max: int,
        cut: bool = False,
        redirects: bool = False,
        judge: Callable[[str], None] | None = None,
    ) -> HttpResponse:
        """Sends a request and returns its response, unpacked if it is gzipped.

        At most ``answer_bytes_max`` bytes of the response are read, packed and unpacked. The rest of a longer one is
        left unread with ``cut``; otherwise it is an error. Redirects (of GET requests) are followed if ``redirects``.
        ``judge`` is called with each URL, and raises UrlRefused if it must not be requested.

        Raises UrlRefused, RequestFailed without a response, and ResponseTooLarge.
        """
        try:
            async with asyncio.timeout(self._timeouts.total):
                moved_to = None
                is_moved = True
                for _ in range(REDIRECTS_MAX + 1):
                    if judge is not None:
                        judge(url)
                    answer = await self._request(method, url, headers or {}, body, answer_bytes_max, cut)
                    location = answer.headers.get("location")
                    if not (redirects and answer.status in _REDIRECTS and location):
                        return replace(answer, moved_to=moved_to)
                    url = _target(answer.url, location)
                    is_moved &= answer.status in _MOVED
                    moved_to = url if is_moved else moved_to
        except TimeoutError:
            raise RequestFailed(f"no complete answer within {self._timeouts.total:g} s") from None
        except UnresolvedHost as error:
            raise RequestFailed(error.reason) from None
        except httpcore2.ConnectTimeout:
            raise RequestFailed(f"no connection within {self._timeouts.connect:g} s") from None
        except httpcore2.TimeoutException:
            raise RequestFailed(f"no answer within {self._timeouts.read:g} s") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            what = _DESCRIPTIONS.get(type(error), "the request failed")
            raise RequestFailed(f"{what}: {str(error) or 'no detail'}") from None
        raise RequestFailed(f"more than {REDIRECTS_MAX} redirects")

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, bytes_max: int, cut: bool
    ) -> HttpResponse:
        url = urlunsplit(parse_url(url))
        sent = {"User-Agent": USER_AGENT, "Accept": "*/*", **headers}
        if body is not None:
            sent["Content-Length"] = str(len(body))
        timeouts = {"connect": self._timeouts.connect, "read": self._timeouts.read, "write": self._timeouts.read}
        async with self._pool.stream(
            method,
            url,
            headers=[("Host", parse_url(url).netloc), *sent.items()],
            content=body,
            extensions={"timeout": timeouts},
        ) as response:
            received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            chunks: AsyncGenerator[bytes, None] = response.aiter_stream()
            if received.get("content-encoding", "identity").strip().lower() in ("gzip", "x-gzip", "deflate"):
                chunks = _unpacked(chunks)
            return HttpResponse(url, response.status, received, await _read(chunks, bytes_max, cut))


def _target(url: str, location: str) -> str:
    """Returns where a redirect leads. Bytes beyond ASCII are percent-encoded, as servers forget to do."""
    try:
        return urljoin(url, quote(location.encode("latin-1"), safe=_IN_URLS))
    except ValueError:
        raise RequestFailed(f"it redirects to {location[:200]!r}, which is no address") from None


_IN_URLS: Final = "!#$%&'()*+,/:;=?@[]~"

_DESCRIPTIONS: Final[Mapping[type[Exception], str]] = {
    httpcore2.ConnectError: "it cannot be reached",
    httpcore2.ReadError: "the connection broke",
    httpcore2.WriteError: "the connection broke",
    httpcore2.RemoteProtocolError: "it does not speak HTTP properly",
}


async def _read(chunks: AsyncGenerator[bytes, None], bytes_max: int, cut: bool) -> bytes:
    body = bytearray()
    async with aclosing(chunks):
        async for chunk in chunks:
            body += chunk
            if len(body) > bytes_max:
                if cut:
                    break
                raise ResponseTooLarge(f"the answer is longer than {bytes_max:,} bytes")
    return bytes(body[:bytes_max])


_UNPACKED_STEP: Final = 1 << 16


async def _unpacked(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yields the content of gzipped or deflated chunks, in small parts however well it was packed."""
    unpacker = zlib.decompressobj(_ANY_ZLIB)
    is_start = is_packed = True
    try:
        async for chunk in chunks:
            packed = chunk
            if is_start and packed:
                # Some servers name an encoding that they did not use.
                is_packed, is_start = packed[:1] in _PACKED, False
            if not is_packed:
                yield packed
                continue
            while packed:
                if unpacker.eof:
                    # A gzip stream may have several members.
                    if not packed.startswith(_GZIP_START):
                        break
                    unpacker = zlib.decompressobj(_ANY_ZLIB)
                piece = unpacker.decompress(packed, _UNPACKED_STEP)
                packed = unpacker.unconsumed_tail or unpacker.unused_data
                if piece:
                    yield piece
    except zlib.error as error:
        raise RequestFailed(f"the answer is damaged: {error}") from None
    if is_packed and not is_start and not unpacker.eof:
        raise RequestFailed("the answer ends in the middle")


_ANY_ZLIB: Final = zlib.MAX_WBITS | 32
_GZIP_START: Final = b"\x1f"
_PACKED: Final = (b"\x1f", b"\x78")
"""First bytes of gzip and zlib; XML begins with neither."""


def gunzip(packed: bytes, bytes_max: int) -> bytes:
    """Returns the content of a gzipped file; raises RequestFailed or ResponseTooLarge."""
    body = b""
    try:
        while True:
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            body += unpacker.decompress(packed, bytes_max + 1 - len(body))
            if len(body) > bytes_max:
                raise ResponseTooLarge(f"the file is longer than {bytes_max:,} bytes")
            if not unpacker.eof:
                raise RequestFailed("the file ends in the middle")
            packed = unpacker.unused_data
            # A gzip file may have several members.
            if not packed.startswith(_GZIP_START):
                return body
    except zlib.error as error:
        raise RequestFailed(f"the file is damaged: {error}") from None
