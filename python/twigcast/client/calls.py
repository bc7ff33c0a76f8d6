"""The requests of the broker's HTTP API as values: what is sent, whether it may be sent twice, how the answer is read.

Both clients send these requests. They differ in how they wait for the answer.
"""

from __future__ import annotations

import base64
import inspect
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, get_args, get_type_hints
from urllib.parse import quote

from twigcast.client.values import (
    Accepted,
    DeadLetter,
    Delivery,
    Explanation,
    Imported,
    Message,
    Messages,
    Page,
    Publication,
    QueryReport,
    RefusedLine,
    Rejected,
    Subscription,
    Webhook,
)
from twigcast.registration import Dialect

P = ParamSpec("P")
T = TypeVar("T")

_JSON_LINES: Final = "application/x-ndjson"
_PAGE_SIZE: Final = 1_000
_BULK_SECONDS: Final = 3_600.0

Start = Literal["now"] | int | datetime | str
"""The start of a subscription: now, right after a cursor, or with the first message of a time or the one of an id."""


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T]):
    """A request to a broker."""

    broker_url: str
    method: str
    path: str
    read: Callable[[Any], T]
    """The function that reads the answer, which is JSON, or bytes if the request is ``raw``."""
    headers: Mapping[str, str]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    """A body that is sent as JSON."""
    content: bytes | None = None
    """A body that is sent as it is."""
    is_repeatable: bool = True
    """Whether sending it twice has the same effect as sending it once."""
    is_needed: bool = True
    """Whether it has any effect. If not, it is not sent, and ``None`` is read in place of an answer."""
    query: str | None = None
    """The query in it, for errors."""
    raw: bool = False
    seconds: float = 0.0
    """The time for which the broker may delay the answer on purpose."""

    def following(self, after: str) -> ApiRequest[T]:
        """Returns the request for the page that begins after ``after``."""
        if self.body is not None:
            return replace(self, body={**self.body, "after": after})
        return replace(self, params={**self.params, "after": after})


def describe(
    method: Callable[P, T], call: Callable[..., ApiRequest[Any]], container: type[Any] | None = None
) -> Callable[P, T]:
    """Gives the method of a client the name, documentation and signature of the call that it sends.

    Args:
        method: The method.
        call: The method of :class:`BrokerApi` whose request it sends.
        container: The type that the method returns the items of all pages in, if the call has pages.
    """
    hints = get_type_hints(call)
    answer = get_args(hints["return"])[0]
    result = answer if container is None else container[get_args(answer)[0]]
    method.__name__, method.__doc__ = call.__name__, call.__doc__
    method.__annotations__ = {**hints, "return": result}
    method.__signature__ = inspect.signature(call).replace(return_annotation=result)  # type: ignore[attr-defined]
    return method


class BrokerApi:
    """The requests to one broker.

    The methods of both clients have the parameters and the documentation of the methods here.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def _get(self, path: str, read: Callable[[Any], T], **params: Any) -> ApiRequest[T]:
        return ApiRequest(self.url, "GET", path, read, self.headers, _present(**params))

    def _post(self, path: str, read: Callable[[Any], T], body: Mapping[str, Any] | None = None) -> ApiRequest[T]:
        return ApiRequest(self.url, "POST", path, read, self.headers, body=body)

    def _upload(
        self, path: str, read: Callable[[Any], T], content: bytes, content_type: str, **params: Any
    ) -> ApiRequest[T]:
        headers = {**self.headers, "Content-Type": content_type}
        return ApiRequest(self.url, "POST", path, read, headers, _present(**params), content=content)

    # Publishing

    def publish(
        self,
        xml: bytes | str,
        *,
        message_id: str | None = None,
        source: str | None = None,
        charset: str | None = None,
    ) -> ApiRequest[Accepted]:
        """Publishes a message. It is durably stored when this returns.

        Args:
            xml: The message; as bytes in any encoding that it declares.
            message_id: An id of your own, by default random. The broker accepts one message per id and source.
            source: The source of the message.
            charset: The encoding of ``xml``, if it overrides the declaration.

        Raises:
            MalformedMessage: It is not well-formed XML. The broker keeps it.
            UnreadableMessage: It is over a limit, or cannot be processed for another reason. The broker keeps it.
            TooMany: The rate of publications is over the limit.
        """
        content, charset = (xml.encode(), "utf-8") if isinstance(xml, str) else (xml, charset)
        content_type = "application/xml" + (f"; charset={charset}" if charset else "")
        # With an id, the message may be sent again if the answer is lost.
        message_id = message_id or str(uuid.uuid4())
        return self._upload("/messages", Accepted.of, content, content_type, id=message_id, source=source)

    def publish_many(
        self, messages: Iterable[Publication | bytes | str], *, source: str | None = None
    ) -> ApiRequest[list[Accepted | Rejected]]:
        """Publishes a batch in one request, and returns the outcome of each message in order."""
        content = "\n".join(json.dumps(_publication(item)) for item in messages).encode()
        return self._upload("/messages", _outcomes, content, _JSON_LINES, source=source)

    def messages(
        self, *, after: int = 0, limit: int = 100, source: str | None = None, xml: bool = False
    ) -> ApiRequest[Messages]:
        """Returns a page of stored messages in the order of acceptance, including their XML if ``xml`` is true."""
        return self._get("/messages", Messages.of, after=after, limit=limit, source=source, xml=str(xml).lower())

    def message(self, seq: int) -> ApiRequest[Message]:
        """Returns a stored message."""
        return self._get(f"/messages/{seq}", Message.of)

    # Subscriptions

    def subscribe(
        self,
        key: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        subscriber: str | None = None,
        webhook: Webhook | None = None,
        start: Start = "now",
    ) -> ApiRequest[Subscription]:
        """Subscribes to the messages that match a query.

        Args:
            key: Your own identifier of the subscription.
            query: XPath, or For-Where-Return.
            namespaces: Prefixes with their namespaces; the empty prefix is for element names without a prefix.
            dialect: The dialect of the query.
            subscriber: The subscriber whose queue holds its deliveries; by default the queue is named by the key.
            webhook: The address that deliveries are posted to; by default they wait until they are pulled.
            start: ``"now"``, or a start in the past: right after a cursor (a number), with the first message of a
                time, or with the message of an id.

        Raises:
            QueryError: The query is refused.
            Conflict: The key is taken, or the subscriber cannot be shared.
        """
        body = {"key": key} | _subscription_fields(query, namespaces, dialect, subscriber, webhook)
        if start != "now":
            body["from"] = _start_fields(start)
        return replace(self._post("/subscriptions", Subscription.of, body), is_repeatable=False, query=query)

    def replace(
        self,
        key: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        subscriber: str | None = None,
        webhook: Webhook | None = None,
    ) -> ApiRequest[Subscription]:
        """Replaces the query and delivery of a subscription, or adds it. Arguments as for :meth:`subscribe`."""
        body = _subscription_fields(query, namespaces, dialect, subscriber, webhook)
        return replace(self._post(_subscription_path(key), Subscription.of, body), method="PUT", query=query)

    def subscription(self, key: str) -> ApiRequest[Subscription]:
        """Returns a subscription."""
        return self._get(_subscription_path(key), Subscription.of)

    def subscriptions(self, *, subscriber: str | None = None) -> ApiRequest[Page[Subscription]]:
        """Yields all subscriptions in the order of their keys, or those of a subscriber."""
        return self._get("/subscriptions", _subscription_page, limit=_PAGE_SIZE, subscriber=subscriber)

    def pause(self, key: str) -> ApiRequest[Subscription]:
        """Puts a subscription on hold: it ignores new messages, and its pending deliveries wait."""
        return self._post(f"{_subscription_path(key)}/pause", Subscription.of)

    def resume(self, key: str) -> ApiRequest[Subscription]:
        """Resumes a paused or suspended subscription."""
        return self._post(f"{_subscription_path(key)}/resume", Subscription.of)

    def unsubscribe(self, key: str) -> ApiRequest[None]:
        """Deletes a subscription with its pending deliveries."""
        return replace(self._get(_subscription_path(key), _read_nothing), method="DELETE", is_repeatable=False)

    def import_subscriptions(
        self, subscriptions: Iterable[Mapping[str, Any]] | bytes, *, replace: bool = False
    ) -> ApiRequest[Imported]:
        """Adds many subscriptions.

        Args:
            subscriptions: Fields as of ``POST /subscriptions``, or JSON lines with them.
            replace: Whether existing subscriptions are replaced.
        """
        if not isinstance(subscriptions, bytes):
            subscriptions = "".join(json.dumps(dict(item)) + "\n" for item in subscriptions).encode()
        request = self._upload(
            "/subscriptions/import", _imported, subscriptions, _JSON_LINES, replace=str(replace).lower()
        )
        return _bulk(request, is_repeatable=replace)

    def export_subscriptions(self) -> ApiRequest[list[dict[str, Any]]]:
        """Returns all subscriptions in the form of an import, without secrets."""
        return _bulk(self._get("/subscriptions/export", _json_lines))

    # Queries

    def check(
        self, query: str, *, namespaces: Mapping[str, str] | None = None, dialect: Dialect | None = None
    ) -> ApiRequest[QueryReport]:
        """Checks whether a text is a query, how it would run, and what looks wrong with it."""
        body = _present(query=query, namespaces=_as_dict(namespaces), dialect=dialect)
        return replace(self._post("/check", QueryReport.of, body), query=query)

    def explain(
        self,
        query: str | None = None,
        *,
        key: str | None = None,
        subscriber: str | None = None,
        xml: str | None = None,
        seq: int | None = None,
        message: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
    ) -> ApiRequest[Page[Explanation]]:
        """Explains why queries match a message or not.

        Name the queries by one of ``query``, ``key`` and ``subscriber``, and the message by one of ``xml``, ``seq`` and
        ``message``.

        Args:
            query: A query.
            key: The key of a subscription.
            subscriber: A subscriber, for all its subscriptions.
            xml: A message.
            seq: The sequence number of a stored message.
            message: The id of a stored message.
            namespaces: The namespaces of ``query``.
            dialect: The dialect of ``query``.
        """
        body = _present(
            query=query,
            key=key,
            subscriber=subscriber,
            xml=xml,
            seq=seq,
            message=message,
            namespaces=_as_dict(namespaces),
            dialect=dialect,
        )
        return replace(self._post("/explain", _explanation_page, body), query=query)

    # Deliveries

    def pull(
        self, subscriber: str, *, wait: float = 0.0, limit: int = 100, visibility: float | None = None
    ) -> ApiRequest[list[Delivery]]:
        """Leases deliveries. Those that are not acknowledged within ``visibility`` seconds are delivered again.

        Args:
            subscriber: The subscriber.
            wait: Seconds to wait for the first delivery.
            limit: The most deliveries.
            visibility: Seconds of the lease.
        """
        # If the answer is lost, its deliveries come again at the end of their lease.
        request = self._get(
            "/deliveries", _deliveries, subscriber=subscriber, wait=wait, limit=limit, visibility=visibility
        )
        return replace(request, seconds=wait)

    def acknowledge(self, subscriber: str, deliveries: Sequence[Delivery | str]) -> ApiRequest[None]:
        """Acknowledges deliveries."""
        ids = _delivery_ids(deliveries)
        request = self._post("/deliveries/ack", _read_nothing, {"subscriber": subscriber, "ids": ids})
        return replace(request, is_needed=bool(ids))

    def acknowledge_up_to(self, subscriber: str, delivery: Delivery | str) -> ApiRequest[None]:
        """Acknowledges all deliveries up to one."""
        (last,) = _delivery_ids([delivery])
        return self._post("/deliveries/ack", _read_nothing, {"subscriber": subscriber, "up_to": last})

    def give_back(
        self, subscriber: str, deliveries: Sequence[Delivery | str], *, delay: float = 0.0
    ) -> ApiRequest[None]:
        """Returns pulled deliveries to the queue, which delivers them again after ``delay`` seconds."""
        ids = _delivery_ids(deliveries)
        request = self._post("/deliveries/nack", _read_nothing, {"subscriber": subscriber, "ids": ids, "delay": delay})
        return replace(request, is_needed=bool(ids))

    # Dead letters

    def dead_letters(
        self, *, before: int | None = None, limit: int = 100, key: str | None = None
    ) -> ApiRequest[list[DeadLetter]]:
        """Returns deliveries that the broker has given up, newest first."""
        return self._get("/dead-letters", _dead_letters, before=before, limit=limit, key=key)

    def retry_dead_letters(self, dead_letters: Sequence[DeadLetter | int]) -> ApiRequest[int]:
        """Retries the delivery of dead letters, and returns how many are retried."""
        return self._change_dead_letters("retry", dead_letters)

    def delete_dead_letters(self, dead_letters: Sequence[DeadLetter | int]) -> ApiRequest[int]:
        """Deletes dead letters, and returns how many there were."""
        return self._change_dead_letters("delete", dead_letters)

    def _change_dead_letters(self, verb: str, dead_letters: Sequence[DeadLetter | int]) -> ApiRequest[int]:
        numbers = [item if isinstance(item, int) else item.dead_letter for item in dead_letters]
        request = self._post(f"/dead-letters/{verb}", _read_count, {"dead_letters": numbers})
        return replace(request, is_repeatable=False)


# --- what is sent -----------------------------------------------------------------------------------------------------


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _as_dict(namespaces: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if namespaces is None else dict(namespaces)


def _bulk(request: ApiRequest[T], *, is_repeatable: bool = True) -> ApiRequest[T]:
    return replace(request, is_repeatable=is_repeatable, raw=True, seconds=_BULK_SECONDS)


def _publication(item: Publication | bytes | str) -> dict[str, Any]:
    publication = item if isinstance(item, Publication) else Publication(item)
    members = _present(id=publication.id or str(uuid.uuid4()), source=publication.source)
    if isinstance(publication.xml, str):
        return members | {"xml": publication.xml}
    return members | {"xml_base64": base64.b64encode(publication.xml).decode()}


def _subscription_path(key: str) -> str:
    return f"/subscriptions/{quote(key, safe='')}"


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
        query=query, namespaces=_as_dict(namespaces), dialect=dialect, subscriber=subscriber, delivery=delivery
    )


def _start_fields(start: Start) -> dict[str, Any]:
    if isinstance(start, datetime):
        return {"time": start.isoformat()}
    return {"after": start} if isinstance(start, int) else {"message": start}


def _delivery_ids(deliveries: Iterable[Delivery | str]) -> list[str]:
    return [item if isinstance(item, str) else item.id for item in deliveries]


# --- how answers are read ---------------------------------------------------------------------------------------------


def _read_nothing(_: Any) -> None:
    """Ignores an answer without a body."""


def _read_count(answer: Mapping[str, Any]) -> int:
    return int(answer["count"])


def _outcomes(answer: Mapping[str, Any]) -> list[Accepted | Rejected]:
    return [Rejected.of(item) if item["status"] == "rejected" else Accepted.of(item) for item in answer["results"]]


def _subscription_page(answer: Mapping[str, Any]) -> Page[Subscription]:
    return Page([Subscription.of(item) for item in answer["subscriptions"]], answer["next"])


def _explanation_page(answer: Mapping[str, Any]) -> Page[Explanation]:
    return Page([Explanation(**item) for item in answer["explanations"]], answer["next"])


def _deliveries(answer: Mapping[str, Any]) -> list[Delivery]:
    return [Delivery.of(item) for item in answer["deliveries"]]


def _dead_letters(answer: Mapping[str, Any]) -> list[DeadLetter]:
    return [DeadLetter.of(item) for item in answer["dead_letters"]]


def _json_lines(answer: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.splitlines()]


def _imported(answer: bytes) -> Imported:
    *refused, counts = _json_lines(answer)
    errors = [
        RefusedLine(item["line"], item["key"], item["error"]["code"], item["error"]["detail"]) for item in refused
    ]
    return Imported(**counts, errors=errors)
