"""Each request of the API as a value: what is sent, whether it may be sent twice, and how the answer is read.

Both clients, the one that blocks and the one that does not, make the same calls, and differ in who waits.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote

from twigcast.client.values import (
    Accepted,
    DeadLetter,
    Delivery,
    Explanation,
    Imported,
    Message,
    Messages,
    Publication,
    QueryReport,
    RefusedLine,
    Rejected,
    Subscription,
    Webhook,
)
from twigcast.registration import Dialect

T = TypeVar("T")

LINES: Final = "application/x-ndjson"

PAGE: Final = 1_000
"""Subscriptions asked for at a time."""

ACKNOWLEDGED_SECONDS: Final = 1.0
ACKNOWLEDGED_COUNT: Final = 500
"""A stream acknowledges what is done at the latest after so many seconds, or so many deliveries."""

Start = Literal["now"] | int | datetime | str
"""Where a subscription begins: now, right after a cursor, with the first message of a time, or with that of an id."""


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T]):
    """A request."""

    method: str
    path: str
    read: Callable[[Any], T]
    """From the answer as JSON (as bytes with ``raw``) to its value."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    """To be sent as JSON."""
    content: bytes | None = None
    content_type: str | None = None
    repeatable: bool = True
    """Whether sending it twice does what sending it once does."""
    asked: str | None = None
    """The query in it, for errors."""
    raw: bool = False
    seconds: float = 0.0
    """How long the broker may take to answer on purpose."""


def nothing(_: Any) -> None:
    """Read an answer without a body."""


def _segment(name: str) -> str:
    return quote(name, safe="")


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


# --- publishing -------------------------------------------------------------------------------------------------------


def publish(xml: bytes | str, message_id: str | None, source: str | None, charset: str | None) -> ApiRequest[Accepted]:
    """Publish one message. It always has an id, so that it may be sent again when the answer was lost."""
    content = xml.encode() if isinstance(xml, str) else xml
    charset = "utf-8" if isinstance(xml, str) else charset
    return ApiRequest(
        "POST",
        "/messages",
        Accepted.of,
        _present(id=message_id or str(uuid.uuid4()), source=source),
        content=content,
        content_type="application/xml" + (f"; charset={charset}" if charset else ""),
    )


def publish_many(
    messages: Iterable[Publication | bytes | str], source: str | None
) -> ApiRequest[list[Accepted | Rejected]]:
    """Publish a batch."""
    lines = [json.dumps(_line(item)) for item in messages]
    return ApiRequest(
        "POST",
        "/messages",
        lambda result: [
            Rejected.of(item) if item["status"] == "rejected" else Accepted.of(item) for item in result["results"]
        ],
        _present(source=source),
        content="\n".join(lines).encode(),
        content_type=LINES,
    )


def _line(item: Publication | bytes | str) -> dict[str, Any]:
    requested = item if isinstance(item, Publication) else Publication(item)
    members = _present(id=requested.id or str(uuid.uuid4()), source=requested.source)
    if isinstance(requested.xml, str):
        return members | {"xml": requested.xml}
    return members | {"xml_base64": base64.b64encode(requested.xml).decode()}


def messages(after: int, limit: int, source: str | None, *, xml: bool) -> ApiRequest[Messages]:
    """List messages."""
    return ApiRequest(
        "GET", "/messages", Messages.of, _present(after=after, limit=limit, source=source, xml=str(xml).lower())
    )


def message(seq: int) -> ApiRequest[Message]:
    """Get a message."""
    return ApiRequest("GET", f"/messages/{seq}", Message.of)


# --- subscriptions ----------------------------------------------------------------------------------------------------


def subscribe(
    key: str,
    query: str,
    namespaces: Mapping[str, str] | None,
    dialect: Dialect | None,
    subscriber: str | None,
    webhook: Webhook | None,
    start: Start,
) -> ApiRequest[Subscription]:
    """Subscribe."""
    body = _subscription_fields(query, namespaces, dialect, subscriber, webhook) | {"key": key}
    if start != "now":
        body["from"] = _start(start)
    return ApiRequest("POST", "/subscriptions", Subscription.of, body=body, repeatable=False, asked=query)


def replace(
    key: str,
    query: str,
    namespaces: Mapping[str, str] | None,
    dialect: Dialect | None,
    subscriber: str | None,
    webhook: Webhook | None,
) -> ApiRequest[Subscription]:
    """Replace a subscription, or make it."""
    body = _subscription_fields(query, namespaces, dialect, subscriber, webhook)
    return ApiRequest("PUT", f"/subscriptions/{_segment(key)}", Subscription.of, body=body, asked=query)


def _subscription_fields(
    query: str,
    namespaces: Mapping[str, str] | None,
    dialect: Dialect | None,
    subscriber: str | None,
    webhook: Webhook | None,
) -> dict[str, Any]:
    delivery = None
    if webhook is not None:
        delivery = _present(kind="webhook", url=webhook.url, secret=webhook.secret)
    return _present(
        query=query,
        namespaces=None if namespaces is None else dict(namespaces),
        dialect=dialect,
        subscriber=subscriber,
        delivery=delivery,
    )


def _start(start: Start) -> dict[str, Any]:
    if isinstance(start, datetime):
        return {"time": start.isoformat()}
    return {"after": start} if isinstance(start, int) else {"message": start}


def subscription(key: str) -> ApiRequest[Subscription]:
    """Get a subscription."""
    return ApiRequest("GET", f"/subscriptions/{_segment(key)}", Subscription.of)


def subscriptions(
    after: str | None, limit: int, subscriber: str | None
) -> ApiRequest[tuple[list[Subscription], str | None]]:
    """List subscriptions: a page, and where the next one begins."""
    return ApiRequest(
        "GET",
        "/subscriptions",
        lambda result: ([Subscription.of(item) for item in result["subscriptions"]], result["next"]),
        _present(after=after, limit=limit, subscriber=subscriber),
    )


def change_state(key: str, verb: Literal["pause", "resume"]) -> ApiRequest[Subscription]:
    """Pause or resume a subscription."""
    return ApiRequest("POST", f"/subscriptions/{_segment(key)}/{verb}", Subscription.of)


def unsubscribe(key: str) -> ApiRequest[None]:
    """Delete a subscription."""
    return ApiRequest("DELETE", f"/subscriptions/{_segment(key)}", nothing, repeatable=False)


def import_subscriptions(lines: bytes, *, replace: bool) -> ApiRequest[Imported]:
    """Subscribe many times."""
    return ApiRequest(
        "POST",
        "/subscriptions/import",
        _imported,
        {"replace": str(replace).lower()},
        content=lines,
        content_type=LINES,
        repeatable=replace,
        raw=True,
        seconds=3_600.0,
    )


def _imported(answer: bytes) -> Imported:
    *refused, counts = [json.loads(line) for line in answer.splitlines()]
    errors = [
        RefusedLine(item["line"], item["key"], item["error"]["code"], item["error"]["detail"]) for item in refused
    ]
    return Imported(**counts, errors=errors)


def export_subscriptions() -> ApiRequest[list[dict[str, Any]]]:
    """All subscriptions, as an import takes them."""
    return ApiRequest(
        "GET",
        "/subscriptions/export",
        lambda answer: [json.loads(line) for line in answer.splitlines()],
        raw=True,
        seconds=3_600.0,
    )


# --- queries ----------------------------------------------------------------------------------------------------------


def check(query: str, namespaces: Mapping[str, str] | None, dialect: Dialect | None) -> ApiRequest[QueryReport]:
    """Check a query."""
    body = _present(query=query, namespaces=None if namespaces is None else dict(namespaces), dialect=dialect)
    return ApiRequest("POST", "/check", QueryReport.of, body=body, asked=query)


def explain(
    query: str | None,
    key: str | None,
    subscriber: str | None,
    xml: str | None,
    seq: int | None,
    message: str | None,
    namespaces: Mapping[str, str] | None,
    dialect: Dialect | None,
    after: str | None = None,
) -> ApiRequest[tuple[list[Explanation], str | None]]:
    """Explain why queries match a message or not; with the explanations, where the next page begins."""
    body = _present(
        query=query,
        key=key,
        subscriber=subscriber,
        after=after,
        xml=xml,
        seq=seq,
        message=message,
        namespaces=None if namespaces is None else dict(namespaces),
        dialect=dialect,
    )
    return ApiRequest(
        "POST",
        "/explain",
        lambda result: ([Explanation(**item) for item in result["explanations"]], result["next"]),
        body=body,
        asked=query,
    )


# --- deliveries -------------------------------------------------------------------------------------------------------


def pull(subscriber: str, wait: float, limit: int, visibility: float | None) -> ApiRequest[list[Delivery]]:
    """Pull deliveries. What an answer that was lost held comes again when its visibility ends."""
    return ApiRequest(
        "GET",
        "/deliveries",
        lambda result: [Delivery.of(item) for item in result["deliveries"]],
        _present(subscriber=subscriber, wait=wait, limit=limit, visibility=visibility),
        seconds=wait,
    )


def acknowledge(subscriber: str, ids: Sequence[str]) -> ApiRequest[None]:
    """Acknowledge deliveries."""
    return ApiRequest("POST", "/deliveries/ack", nothing, body={"subscriber": subscriber, "ids": list(ids)})


def acknowledge_up_to(subscriber: str, delivery: str) -> ApiRequest[None]:
    """Acknowledge all deliveries up to one."""
    return ApiRequest("POST", "/deliveries/ack", nothing, body={"subscriber": subscriber, "up_to": delivery})


def give_back(subscriber: str, ids: Sequence[str], delay: float) -> ApiRequest[None]:
    """Give pulled deliveries back."""
    body = {"subscriber": subscriber, "ids": list(ids), "delay": delay}
    return ApiRequest("POST", "/deliveries/nack", nothing, body=body)


def dead_letters(before: int | None, limit: int, key: str | None) -> ApiRequest[list[DeadLetter]]:
    """List dead letters."""
    return ApiRequest(
        "GET",
        "/dead-letters",
        lambda result: [DeadLetter.of(item) for item in result["dead_letters"]],
        _present(before=before, limit=limit, key=key),
    )


def dead_letters_do(verb: Literal["retry", "delete"], numbers: Sequence[int]) -> ApiRequest[int]:
    """Retry or remove dead letters."""
    return ApiRequest(
        "POST",
        f"/dead-letters/{verb}",
        lambda result: int(result["count"]),
        body={"dead_letters": list(numbers)},
        repeatable=False,
    )
