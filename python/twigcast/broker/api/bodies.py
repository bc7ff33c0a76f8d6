"""Bodies of requests, read within limits and unpacked, in pieces between which the event loop does other things.

A call into C keeps all threads of the interpreter waiting, not only the event loop. So work on large bodies is bounded
in size, or cut into pieces, rather than passed to a thread as a whole.
"""

from __future__ import annotations

import asyncio
import io
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from twigcast.broker.api.problems import Problem
from twigcast.broker.errors import Invalid, TooLarge

_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP: Final = 1 << 16
"""Number of bytes that are unpacked at a time."""

_PACKED_STEP: Final = 4_096
"""Number of packed bytes that are looked at at a time: what is behind the end of a member is copied each time."""

_MEMBERS_MAX: Final = 10_000
"""Members of gzip data in one body; each costs some microseconds, however few bytes it has."""

PIECE_SECONDS: Final = 0.003
"""Time after which work in the event loop lets others go on."""

JSON_BYTES_MAX: Final = 2 << 20
"""Bytes of a JSON body; those of many messages or subscriptions are JSON lines, which have limits of their own."""

JSON_VALUES_MAX: Final = 40_000
"""Values in a JSON body, about."""

JSON_MEMBERS_MAX: Final = 1_000
"""Members of a JSON object: what is wrong with each is found at once."""

_JSON_SMALL: Final = 16 << 10
"""A body of fewer bytes is read without a look at it."""

_CHARSET = re.compile(r';\s*charset\s*=\s*(?:"([^"]*)"|([^\s;"]+))', re.IGNORECASE)

_XML_TYPES: Final = frozenset({"application/xml", "text/xml", "application/octet-stream", ""})
_LINES_TYPES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/json-lines"})
# The type that curl sends by default.
_UNSAID: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class ContentType:
    """The content type of a body."""

    media: str
    charset: str | None

    @classmethod
    def of(cls, request: Request) -> ContentType:
        """Returns the content type of a request."""
        return _content_type(header(request, b"content-type"))

    @property
    def is_xml(self) -> bool:
        """Returns whether the body is one message."""
        return self.media in _XML_TYPES or self.media.endswith("+xml") or self.media == _UNSAID

    @property
    def is_lines(self) -> bool:
        """Returns whether the body is JSON, one value a line."""
        return self.media in _LINES_TYPES


@lru_cache(maxsize=256)
def _content_type(value: str) -> ContentType:
    result = _CHARSET.search(value)
    charset = (result[1] or result[2] or "").strip() if result else ""
    return ContentType(value.partition(";")[0].strip().lower(), charset or None)


def header(request: Request, name: bytes) -> str:
    """Returns a header of a request, by its name in lower case; empty if it is absent."""
    return next((value for existing, value in request.scope["headers"] if existing == name), b"").decode("latin-1")


def unsupported(media: str, *supported: str) -> Problem:
    """Returns the problem of a body in an unsupported form."""
    return Problem(415, "unsupported-media-type", f"a body of type {media!r} is not understood; use {_or(supported)}")


def _or(choices: tuple[str, ...]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


async def read(request: Request, bytes_max: int) -> bytes:
    """Returns the whole body, unpacked; raises TooLarge, or Invalid or Problem if its packing is wrong or unknown."""
    if header(request, b"content-encoding"):
        unpacked = bytearray()
        async for part in parts(request, bytes_max):
            unpacked += part
        return bytes(unpacked)
    # Nearly all messages come so, and in one part.
    _check_length(request, bytes_max)
    gathered: io.BytesIO | None = None
    while True:
        came = await request.receive()
        if came["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = came.get("body", b"")
        if gathered is None and not came.get("more_body", False):
            _check_size(len(piece), bytes_max)
            return piece
        # It gives its bytes away as they are: joining the pieces of a large body would be one long call.
        gathered = io.BytesIO() if gathered is None else gathered
        gathered.write(piece)
        _check_size(gathered.tell(), bytes_max)
        if not came.get("more_body", False):
            return gathered.getvalue()


async def parts(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    """Yields the parts of the body, unpacked. Raises as :func:`read` does."""
    unpack = _unpacker(request)
    _check_length(request, bytes_max)
    arrived = total = 0
    breaks = LoopBreaks()
    async for packed in request.stream():
        arrived += len(packed)
        if arrived > bytes_max:
            raise _too_large(bytes_max)
        for part in unpack.feed(packed) if unpack else (packed,):
            total += len(part)
            if total > bytes_max:
                raise _too_large(bytes_max)
            if part:
                yield part
            await breaks.if_due()
    if unpack:
        unpack.finish()


async def read_form(request: Request, bytes_max: int) -> bytes:
    """Returns a form as it was sent; raises TooLarge."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise TooLarge(f"the form has more than {bytes_max:,} bytes")
    return bytes(body)


def _check_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise _too_large(bytes_max)


def _check_length(request: Request, bytes_max: int) -> None:
    said = header(request, b"content-length")
    if said.isascii() and said.isdigit() and int(said) > bytes_max:
        raise _too_large(bytes_max)


async def lines(request: Request, bytes_max: int, line_bytes_max: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yields the lines of a body with their numbers from 1, without empty ones; raises TooLarge as for the body."""
    rest, number = bytearray(), 0
    breaks = LoopBreaks()
    async for part in parts(request, bytes_max):
        *whole, begun = part.split(b"\n")
        for line in whole:
            number += 1
            if rest:
                line, rest = bytes(rest + line), bytearray()
            _check_line(line, number, line_bytes_max)
            if line.strip():
                yield number, line
            await breaks.if_due()
        rest += begun
        _check_line(rest, number + 1, line_bytes_max)
    if rest.strip():
        yield number + 1, bytes(rest)


def _check_line(line: bytes | bytearray, number: int, line_bytes_max: int) -> None:
    if len(line) > line_bytes_max:
        raise TooLarge(
            f"line {number:,} has more than {line_bytes_max:,} bytes; a message as large as that is published alone"
        )


class LoopBreaks:
    """Lets the event loop do other things now and then, during work that takes long as a whole."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def if_due(self) -> None:
        """Takes a break if the last one is a while ago."""
        if time.perf_counter() - self._since > PIECE_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


async def read_json(receive: Receive) -> bytes:
    """Returns a body that is one JSON value, as it was sent; raises TooLarge for one that would take long to read."""
    body = bytearray()
    while True:
        came = await receive()
        if came["type"] == "http.disconnect":
            raise ClientDisconnect
        body += came.get("body", b"")
        if len(body) > JSON_BYTES_MAX:
            raise TooLarge(
                f"the JSON has more than {JSON_BYTES_MAX:,} bytes; a message as large as that is published, and then "
                "named by its number"
            )
        if not came.get("more_body", False):
            break
    breaks = LoopBreaks()
    values = body.count(b",") + body.count(b"[") + body.count(b"{") if len(body) > JSON_VALUES_MAX else 0
    if values > JSON_VALUES_MAX:
        raise TooLarge(f"the JSON has more than {JSON_VALUES_MAX:,} values; send it in several requests")
    if len(body) > _JSON_SMALL and _members(body) > JSON_MEMBERS_MAX:
        raise TooLarge(f"an object in the JSON has more than {JSON_MEMBERS_MAX:,} members")
    await breaks.if_due()
    return bytes(body)


def _members(body: bytearray) -> int:
    """Returns the most members of the object in a body, and of those right in it; 0 if it is none, or no JSON."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Whoever reads it for its sense says where it is wrong.
        return 0
    objects = [one for one in (value, *value.values()) if isinstance(one, dict)] if isinstance(value, dict) else []
    return max(map(len, objects), default=0)


T = TypeVar("T")

_BYTES_MAX: Final = 2 << 20
"""A page ends when it has so many bytes, however short it is."""
_FIRST_STEP: Final = 8


def page(limit: int, read: Callable[[T | None, int], list[T]], size: Callable[[T], int]) -> tuple[list[T], bool]:
    """Returns up to ``limit`` items, bounded by their bytes too, and whether there are more behind them.

    ``read`` reads so many items after one of them (``None``: from the start), ``size`` returns the bytes of an item.
    """
    results: list[T] = []
    total, step = 0, _FIRST_STEP
    while True:
        requested = min(step, limit - len(results))
        # One item more shows whether there is a next page.
        some = read(results[-1] if results else None, requested + 1)
        results += some[:requested]
        total += sum(map(size, some))
        if len(some) <= requested:
            return results, False
        if len(results) >= limit or total >= _BYTES_MAX:
            return results, True
        step *= 2


class _Gunzip:
    """A decoder of gzip that unpacks in small steps, so that a bomb never exists as a whole."""

    def __init__(self) -> None:
        self._member: Any = None
        self._members = 0

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yields the unpacked bytes of a part, in pieces that may be empty."""
        try:
            for start in range(0, len(packed), _PACKED_STEP):
                piece = packed[start : start + _PACKED_STEP]
                while piece:
                    if self._member is None or self._member.eof:
                        self._begin()
                    yield self._member.decompress(piece, _STEP)
                    piece = self._member.unconsumed_tail or self._member.unused_data
        except zlib.error:
            raise Invalid("the body is not gzip data, as its Content-Encoding says") from None

    def _begin(self) -> None:
        """Begins a member: gzip data may have several."""
        self._members += 1
        if self._members > _MEMBERS_MAX:
            raise TooLarge(f"the gzip data has more than {_MEMBERS_MAX:,} members; pack it as one")
        self._member = zlib.decompressobj(_GZIP)

    def finish(self) -> None:
        """Raises Invalid unless the data is complete."""
        if self._member is not None and not self._member.eof:
            raise Invalid("the body ends in the middle of its gzip data")


def _unpacker(request: Request) -> _Gunzip | None:
    coding = header(request, b"content-encoding").strip().lower()
    if coding in {"gzip", "x-gzip"}:
        return _Gunzip()
    if coding in {"identity", ""}:
        return None
    raise Problem(415, "unsupported-encoding", f"the content encoding {coding!r} is not understood; use gzip")


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"the body is larger than body_bytes_max = {bytes_max:,} bytes")
