"""The documents that no publisher has written: what was kept for a digest, and that nothing came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from twigcast.envelope import attribute_text
from twigcast.reading.prolog import without_prolog


class DigestEntry(NamedTuple):
    """A message in a digest."""

    message_id: str
    at: float
    """When it happened, in seconds since 1970."""
    payload: bytes
    """What the subscription would have got of it at once."""
    is_result: bool
    """Whether that is the result of a query, and not a document."""


def digest_document(
    key: str, start: float, end: float, entries: Sequence[DigestEntry], *, part: int = 0, missing: int = 0
) -> bytes:
    """Returns a digest as a document: ``<digest from="..." to="..."><message id="..." at="...">...</message>...``.

    Args:
        key: The value of ``by``.
        start: When the period began.
        end: When it ended.
        entries: Its messages, in order.
        part: Which part of the digests of the period this is, if they are several.
        missing: How many messages are not there any more.
    """
    about = {"key": key, "from": time_text(start), "to": time_text(end), "messages": str(len(entries))}
    about |= {"part": str(part)} if part else {}
    about |= {"missing": str(missing)} if missing else {}
    pieces = [_tag("digest", about, ">")]
    for entry in entries:
        pieces.append(_tag("message", {"id": entry.message_id, "at": time_text(entry.at)}, ">"))
        pieces.append(entry.payload if entry.is_result else without_prolog(entry.payload))
        pieces.append(b"</message>")
    return b"".join([*pieces, b"</digest>"])


def absence_document(key: str, since: float, at: float, last: str | None) -> bytes:
    """Returns a document that says that nothing came: ``<absence key="..." since="..." at="..." last="..."/>``.

    Args:
        key: The value of ``by``.
        since: When the last message happened, or the subscription began.
        at: When it was too long ago.
        last: The id of that message; ``None`` if there was none.
    """
    about = {"key": key, "since": time_text(since), "at": time_text(at)}
    return _tag("absence", about | ({} if last is None else {"last": last}), "/>")


def time_text(at: float) -> str:
    """Returns a time as ISO 8601 writes it, in UTC; with milliseconds only where it has them."""
    time = datetime.fromtimestamp(at, UTC)
    return time.isoformat(timespec="milliseconds" if time.microsecond else "seconds").replace("+00:00", "Z")


def _tag(name: str, attributes: dict[str, str], end: str) -> bytes:
    written = "".join(f' {name}="{attribute_text(value)}"' for name, value in attributes.items())
    return f"<{name}{written}{end}".encode()
