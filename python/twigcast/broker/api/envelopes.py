"""Deliveries as JSON, the same for pulls and streams.

::

    {"id": "1234-56", "key": "flood-desk", "redelivered": false, "rewritten": false,
     "seq": 1234, "message": "m-17", "source": "gauges", "received": "2026-01-31T12:00:00.25Z", "xml": "<alert>..."}

The second line describes the message, and takes nearly all of the work, so it is made once and kept for all
deliveries of the message. ``xml`` is what the subscriber gets: the message as text, or the
result of a query that rewrites. Envelopes for workers of shared queues have an ``attempt`` and a
``receipt``, too; those of messages whose source has a profile have a ``relation``, and those for subscriptions with a
window say in ``window`` of which messages they tell.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import orjson

from twigcast.broker.model import QueuedDelivery, StoredMessage
from twigcast.errors import RejectedMessage
from twigcast.lifecycle.chains import Relation
from twigcast.reading.conversion import to_utf8

_KEPT_BYTES_MAX: Final = 16 << 20
_KEYS_MAX: Final = 50_000

_FLAGS: Final = {
    (redelivered, rewritten, relation): (
        f',"redelivered":{str(redelivered).lower()},"rewritten":{str(rewritten).lower()},'
        + ("" if relation is None else f'"relation":"{relation.value}",')
    ).encode()
    for redelivered in (False, True)
    for rewritten in (False, True)
    for relation in (None, *Relation)
}


class Envelopes:
    """A maker of envelopes that keeps the parts that come again. For one thread."""

    def __init__(self) -> None:
        self._messages: dict[StoredMessage, bytes] = {}
        self._bytes = 0
        self._keys: dict[str, bytes] = {}

    def json(self, delivery: QueuedDelivery, *, bodies: bool = True) -> bytes:
        """Returns the envelope of a delivery; without ``bodies`` it leaves out messages that were not rewritten."""
        seq, subscription = delivery.id
        key = self._keys.get(delivery.key) or self._add_key(delivery.key)
        head = b'{"id":"%d-%d","key":%b%b' % (
            seq,
            subscription,
            key,
            _FLAGS[delivery.redelivered, delivery.payload is not None, delivery.relation],
        )
        if delivery.attempt:
            head += b'"attempt":%d,"receipt":"%d-%d-%d",' % (delivery.attempt, seq, subscription, delivery.attempt)
        if delivery.window_note is not None:
            head += b'"window":%b,' % delivery.window_note.encode()
        if delivery.due is not None and delivery.is_overdue(time.time()):
            head += b'"overdue":true,'
        if delivery.payload is not None:
            return b'%b%b,"xml":%b}' % (head, _about(delivery.message), _text(delivery.payload))
        if not bodies:
            return b"%b%b}" % (head, _about(delivery.message))
        return head + (self._messages.get(delivery.message) or self._add(delivery.message))

    def array(self, deliveries: Iterable[QueuedDelivery], *, bodies: bool = True) -> bytes:
        """Returns many envelopes as a JSON array."""
        return b"[%b]" % b",".join([self.json(delivery, bodies=bodies) for delivery in deliveries])

    def events(self, deliveries: Sequence[QueuedDelivery], *, bodies: bool = True) -> bytes:
        """Returns many envelopes as Server-Sent Events."""
        events = [self._event(delivery, bodies=bodies) for delivery in deliveries]
        return events[0] if len(events) == 1 else b"".join(events)

    def _event(self, delivery: QueuedDelivery, *, bodies: bool) -> bytes:
        has_more = delivery.attempt or delivery.window_note is not None or delivery.due is not None
        if delivery.payload is not None or not bodies or has_more:
            return b"id: %d-%d\nevent: delivery\ndata: %b\n\n" % (*delivery.id, self.json(delivery, bodies=bodies))
        # The same as `json`, copying the message once: most events by far are made here.
        seq, subscription = delivery.id
        return b'id: %d-%d\nevent: delivery\ndata: {"id":"%d-%d","key":%b%b%b\n\n' % (
            seq,
            subscription,
            seq,
            subscription,
            self._keys.get(delivery.key) or self._add_key(delivery.key),
            _FLAGS[delivery.redelivered, False, delivery.relation],
            self._messages.get(delivery.message) or self._add(delivery.message),
        )

    def _add_key(self, key: str) -> bytes:
        if len(self._keys) >= _KEYS_MAX:
            self._keys.clear()
        encoded = orjson.dumps(key)
        self._keys[key] = encoded
        return encoded

    def _add(self, message: StoredMessage) -> bytes:
        encoded = b'%b,"xml":%b}' % (_about(message), _text(message.xml))
        while self._messages and self._bytes + len(encoded) > _KEPT_BYTES_MAX:
            oldest = next(iter(self._messages))
            self._bytes -= len(self._messages.pop(oldest))
        self._messages[message] = encoded
        self._bytes += len(encoded)
        return encoded


def _about(message: StoredMessage) -> bytes:
    """Returns the members that describe the message, without braces."""
    about: dict[str, object] = {
        "seq": message.seq,
        "message": message.message_id,
        "source": message.source,
        "received": datetime.fromtimestamp(message.received, UTC),
    }
    if message.priority is not None:
        about["priority"] = message.priority
    if message.deadline is not None:
        about["deadline"] = datetime.fromtimestamp(message.deadline, UTC)
    return orjson.dumps(about, option=orjson.OPT_UTC_Z)[1:-1]


def _text(xml: bytes) -> bytes:
    """Returns XML as a JSON string."""
    return orjson.dumps(as_text(xml))


def as_text(xml: bytes) -> str:
    """Returns a message as text; bytes that cannot be decoded are replaced."""
    try:
        return xml.decode()
    except UnicodeDecodeError:
        pass
    try:
        return to_utf8(xml).decode()
    except RejectedMessage:
        return xml.decode(errors="replace")
