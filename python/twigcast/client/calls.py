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
    Clock,
    Consumer,
    DeadLetter,
    Delivery,
    Explanation,
    Extended,
    Identity,
    Imported,
    LookupTable,
    Message,
    MessageLifecycle,
    Messages,
    NewToken,
    Page,
    PollReport,
    Publication,
    QueryReport,
    Refused,
    RefusedLine,
    Rejected,
    Source,
    Subscription,
    Tenant,
    Token,
    Webhook,
    WindowKey,
)
from twigcast.registration import Dialect, Numbers, Params

P = ParamSpec("P")
T = TypeVar("T")

_JSON_LINES: Final = "application/x-ndjson"
_PAGE_SIZE: Final = 1_000
_BULK_SECONDS: Final = 3_600.0

Overflow = Literal["suspend", "drop_oldest", "dead_letter", "refuse"]
"""What happens when too much waits for a subscriber."""
SourceKind = Literal["push", "rss", "atom", "http-folder"]
"""How messages of a source come: it publishes them, or the broker polls."""
Updates = Literal["ignore", "updated", "content"]
"""When an entry of a feed that changes under its id is published again."""
Deadline = datetime | str
"""A deadline: a time, or a period from now on such as ``"5 min"``."""
Start = Literal["now"] | int | datetime | str
"""The start of a subscription: now, right after a cursor, or with the first message of a time or the one of an id."""


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T]):
    """A request to a broker."""

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

    ``container`` is the type that the method returns the items of all pages in, if the call has pages.
    """
    hints = get_type_hints(call)
    answer = get_args(hints["return"])[0]
    result = answer if container is None else container[get_args(answer)[0]]
    method.__name__, method.__doc__ = call.__name__, call.__doc__
    method.__annotations__ = {**hints, "return": result}
    method.__signature__ = inspect.signature(call).replace(return_annotation=result)  # type: ignore[attr-defined]
    return method


class BrokerApi:
    """The requests to a broker, or to several of which one is active.

    The methods of both clients have the parameters and the documentation of the methods here.
    """

    def __init__(self, url: str | Sequence[str], token: str | None) -> None:
        addresses = url.split(",") if isinstance(url, str) else url
        self.addresses = tuple(address.strip().rstrip("/") for address in addresses)
        """Where the broker may be found."""
        if not self.addresses:
            raise ValueError("give the address of a broker, or of several")
        self.url = self.addresses[0]
        """The one that is tried next."""
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def turn_from(self, url: str) -> None:
        """Tries the next address, since the one at ``url`` did not answer or is a standby."""
        if url == self.url:
            self.url = self.addresses[(self.addresses.index(url) + 1) % len(self.addresses)]

    def _get(self, path: str, read: Callable[[Any], T], **params: Any) -> ApiRequest[T]:
        return ApiRequest("GET", path, read, self.headers, _present(**params))

    def _post(self, path: str, read: Callable[[Any], T], body: Mapping[str, Any] | None = None) -> ApiRequest[T]:
        return ApiRequest("POST", path, read, self.headers, body=body)

    def _upload(
        self, path: str, read: Callable[[Any], T], content: bytes, content_type: str, **params: Any
    ) -> ApiRequest[T]:
        headers = {**self.headers, "Content-Type": content_type}
        return ApiRequest("POST", path, read, headers, _present(**params), content=content)

    # Publishing

    def publish(
        self,
        xml: bytes | str,
        *,
        message_id: str | None = None,
        source: str | None = None,
        charset: str | None = None,
        priority: int | None = None,
        deadline: Deadline | None = None,
    ) -> ApiRequest[Accepted]:
        """Publishes a message. It is durably stored when this returns.

        Args:
            xml: The message; as bytes in any encoding that it declares.
            message_id: An id of your own, by default random. The broker accepts one message per id and source; the same
                body again gets the same answer.
            source: The source of the message.
            charset: The encoding of ``xml``, if it overrides the declaration.
            priority: From 0 to 9, usually 4: with a higher one it goes before what waits.
            deadline: When it is of no use any more: a time, or a period from now on such as ``"5 min"``.

        Raises:
            MalformedMessage: It is not well-formed XML. The broker keeps it.
            UnreadableMessage: It is over a limit, or cannot be processed for another reason. The broker keeps it.
            IdReused: The source published another body under this id.
            TooMany: The rate of publications is over the limit.
        """
        content, charset = (xml.encode(), "utf-8") if isinstance(xml, str) else (xml, charset)
        content_type = "application/xml" + (f"; charset={charset}" if charset else "")
        # With an id, the message may be sent again if the answer is lost.
        message_id = message_id or str(uuid.uuid4())
        about = _about(source, priority, deadline)
        return self._upload("/messages", Accepted.of, content, content_type, id=message_id, **about)

    def publish_many(
        self,
        messages: Iterable[Publication | bytes | str],
        *,
        source: str | None = None,
        priority: int | None = None,
        deadline: Deadline | None = None,
    ) -> ApiRequest[list[Accepted | Rejected | Refused]]:
        """Publishes a batch in one request, and returns the outcome of each message in order."""
        content = "\n".join(json.dumps(_publication(item)) for item in messages).encode()
        return self._upload("/messages", _outcomes, content, _JSON_LINES, **_about(source, priority, deadline))

    def publish_items(
        self,
        xml: bytes | str,
        *,
        message_id: str | None = None,
        source: str | None = None,
        charset: str | None = None,
        priority: int | None = None,
        deadline: Deadline | None = None,
    ) -> ApiRequest[list[Accepted | Rejected | Refused]]:
        """Publishes a document such as a feed item by item, as the profile of its source says what an item is.

        Returns the outcome of each item. Arguments as for :meth:`publish`; with an id, items have it with ``#1`` and so
        on.

        Raises:
            Invalid: The source has no such profile, or there is no item.
        """
        content, charset = (xml.encode(), "utf-8") if isinstance(xml, str) else (xml, charset)
        content_type = "application/xml" + (f"; charset={charset}" if charset else "")
        message_id = message_id or str(uuid.uuid4())
        about = {"id": message_id, "items": "true", **_about(source, priority, deadline)}
        return self._upload("/messages", _outcomes, content, content_type, **about)

    def messages(
        self, *, after: int = 0, limit: int = 100, source: str | None = None, xml: bool = False
    ) -> ApiRequest[Messages]:
        """Returns a page of stored messages in the order of acceptance, including their XML if ``xml`` is true."""
        return self._get("/messages", Messages.of, after=after, limit=limit, source=source, xml=str(xml).lower())

    def message(self, seq: int) -> ApiRequest[Message]:
        """Returns a stored message."""
        return self._get(f"/messages/{seq}", Message.of)

    def lifecycle(self, seq: int) -> ApiRequest[MessageLifecycle]:
        """Returns the life cycle of a stored message: the messages that update or cancel it, and their deliveries.

        Raises:
            UnknownObject: Its source has no profile, or nothing is known of it.
        """
        return self._get(f"/messages/{seq}/lifecycle", MessageLifecycle.of)

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
        delivery: Mapping[str, Any] | None = None,
        overflow: Overflow | None = None,
        follow: bool | None = None,
        when: Mapping[str, Any] | None = None,
        urgency: Mapping[str, Any] | None = None,
        start: Start = "now",
        params: Params | None = None,
        numbers: Numbers | None = None,
    ) -> ApiRequest[Subscription]:
        """Subscribes to the messages that match a query.

        Args:
            key: Your own identifier of the subscription.
            query: XPath, or For-Where-Return.
            namespaces: Prefixes with their namespaces; the empty prefix is for element names without a prefix.
            dialect: The dialect of the query.
            subscriber: The subscriber whose queue holds its deliveries; by default the queue is named by the key.
            webhook: The address that deliveries are posted to; by default they wait until they are pulled.
            delivery: The settings of another channel, with its ``kind``, as ``POST /subscriptions`` takes them.
            overflow: What happens when too much waits for its subscriber: by default it is suspended until half of
                that is done, and then gets what it missed.
            follow: Whether it gets the updates and the end of messages that it got though these do not match; by
                default as the profile of their source says.
            when: When it is told, such as ``{"at_least": 3, "within": "10 min", "by": "string(//area)"}`` or
                ``{"digest": "1 h"}``; by default of each message as it comes.
            urgency: How urgent its deliveries are, such as ``{"priority": 8, "deadline": "5 min", "overdue": "drop"}``;
                by default as their messages are.
            start: ``"now"``, or a start in the past: right after a cursor (a number), with the first message of a
                time, or with the message of an id.
            params: The values of ``$name`` in the query, by name.
            numbers: ``"xs:double"`` to read its query in the dialect ``doubles``: texts that are compared with numbers
                may have exponents.

        Raises:
            QueryError: The query is refused.
            Conflict: The key is taken, or the subscriber cannot be shared.
        """
        body = {"key": key, **_query_fields(query, namespaces, dialect, params, numbers)}
        body |= _delivery_fields(subscriber, webhook, delivery, overflow, follow, when, urgency)
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
        delivery: Mapping[str, Any] | None = None,
        overflow: Overflow | None = None,
        follow: bool | None = None,
        when: Mapping[str, Any] | None = None,
        urgency: Mapping[str, Any] | None = None,
        params: Params | None = None,
        numbers: Numbers | None = None,
        only_if: Subscription | None = None,
    ) -> ApiRequest[Subscription]:
        """Replaces the query and delivery of a subscription, or adds it. Arguments as for :meth:`subscribe`.

        With ``only_if``, a subscription as it was seen, one that was changed since stays as it is, and
        PreconditionFailed is raised.
        """
        body = _query_fields(query, namespaces, dialect, params, numbers)
        body |= _delivery_fields(subscriber, webhook, delivery, overflow, follow, when, urgency)
        request = self._post(_subscription_path(key), Subscription.of, body)
        return _if_unchanged(replace(request, method="PUT", query=query), only_if)

    def subscription(self, key: str) -> ApiRequest[Subscription]:
        """Returns a subscription."""
        return self._get(_subscription_path(key), Subscription.of)

    def window(self, key: str) -> ApiRequest[Page[WindowKey]]:
        """Yields what is known for the window of a subscription, by the value of its ``by``.

        Raises:
            UnknownObject: There is no such subscription, or it has no window.
        """
        return self._get(f"{_subscription_path(key)}/window", _window_page, limit=_PAGE_SIZE)

    def subscriptions(self, *, subscriber: str | None = None) -> ApiRequest[Page[Subscription]]:
        """Yields all subscriptions in the order of their keys, or those of a subscriber."""
        return self._get("/subscriptions", _subscription_page, limit=_PAGE_SIZE, subscriber=subscriber)

    def pause(self, key: str) -> ApiRequest[Subscription]:
        """Puts a subscription on hold: it ignores new messages, and its pending deliveries wait."""
        return self._post(f"{_subscription_path(key)}/pause", Subscription.of)

    def resume(self, key: str) -> ApiRequest[Subscription]:
        """Resumes a paused or suspended subscription."""
        return self._post(f"{_subscription_path(key)}/resume", Subscription.of)

    def seek(self, key: str, start: Start | Delivery) -> ApiRequest[Subscription]:
        """Lets a subscription begin anew: its deliveries from there on come again, and those before count as done.

        Args:
            key: The key of the subscription, which has a subscriber of its own.
            start: ``"now"`` for the next message, or a start in the past as for :meth:`subscribe`, or a delivery.

        Raises:
            Conflict: Other subscriptions have the same subscriber.
        """
        return self._post(f"{_subscription_path(key)}/seek", Subscription.of, _seek_fields(start))

    def unsubscribe(self, key: str, *, only_if: Subscription | None = None) -> ApiRequest[None]:
        """Deletes a subscription with its pending deliveries; with ``only_if`` only one that is as it was seen."""
        request = self._get(_subscription_path(key), _read_nothing)
        return _if_unchanged(replace(request, method="DELETE", is_repeatable=False), only_if)

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
        self,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        params: Params | None = None,
        numbers: Numbers | None = None,
    ) -> ApiRequest[QueryReport]:
        """Checks whether a text is a query, how it would run, and what looks wrong with it."""
        body = _query_fields(query, namespaces, dialect, params, numbers)
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
        params: Params | None = None,
        numbers: Numbers | None = None,
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
            params: The values of ``$name`` in ``query``, by name.
            numbers: How ``query`` reads texts as numbers, as for :meth:`subscribe`.
        """
        body = _query_fields(query, namespaces, dialect, params, numbers)
        body |= _present(key=key, subscriber=subscriber, xml=xml, seq=seq, message=message)
        return replace(self._post("/explain", _explanation_page, body), query=query)

    # Deliveries

    def pull(
        self, subscriber: str, *, wait: float = 0.0, limit: int = 100, visibility: float | None = None
    ) -> ApiRequest[list[Delivery]]:
        """Leases deliveries. Those that are not acknowledged within ``visibility`` seconds are delivered again.

        Workers of a shared queue (``delivery={"kind": "pull", "queue": "shared"}``) pull beside each other.

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
        self,
        subscriber: str,
        deliveries: Sequence[Delivery | str],
        *,
        delay: float = 0.0,
        reason: str | None = None,
    ) -> ApiRequest[None]:
        """Returns pulled deliveries to the queue, which delivers them again after ``delay`` seconds.

        Args:
            subscriber: The subscriber.
            deliveries: The deliveries.
            delay: Seconds before they are delivered again.
            reason: What went wrong. It is the reason of the dead letter if this was the last attempt in a shared queue.
        """
        ids = _delivery_ids(deliveries)
        body = _present(subscriber=subscriber, ids=ids, delay=delay, reason=reason)
        return replace(self._post("/deliveries/nack", _read_nothing, body), is_needed=bool(ids))

    def extend(self, subscriber: str, deliveries: Sequence[Delivery | str], seconds: float) -> ApiRequest[Extended]:
        """Lets the leases of deliveries of a shared queue end in ``seconds`` from now; returns which were over.

        Raises:
            Conflict: The queue is ordered.
        """
        body = {"subscriber": subscriber, "ids": _delivery_ids(deliveries), "seconds": seconds}
        return self._post("/deliveries/extend", Extended.of, body)

    # Consumers

    def consumers(self) -> ApiRequest[Page[Consumer]]:
        """Yields all subscribers in the order of their names, with what waits for each."""
        return self._get("/consumers", _consumer_page, limit=_PAGE_SIZE)

    def furthest_behind(self, limit: int = 100) -> ApiRequest[list[Consumer]]:
        """Returns the subscribers with the oldest pending deliveries, as of a few seconds ago, the oldest first."""
        return self._get("/consumers", _consumers, behind="true", limit=limit)

    def consumer(self, subscriber: str) -> ApiRequest[Consumer]:
        """Returns a subscriber, with what waits for it."""
        return self._get(_consumer_path(subscriber), Consumer.of)

    def purge(self, subscriber: str) -> ApiRequest[int]:
        """Counts all that is pending for a subscriber as done, and returns how many deliveries that were."""
        return replace(self._post(f"{_consumer_path(subscriber)}/purge", _read_count), is_repeatable=False)

    def skip(self, subscriber: str, count: int = 1, *, dead_letter: bool = True) -> ApiRequest[int]:
        """Takes the oldest pending deliveries out of the way, and returns how many there were.

        Args:
            subscriber: The subscriber.
            count: How many.
            dead_letter: Whether they become dead letters; otherwise they are gone.
        """
        body = {"count": count, "dead_letter": dead_letter}
        return replace(self._post(f"{_consumer_path(subscriber)}/skip", _read_count, body), is_repeatable=False)

    def redrive(self, subscriber: str) -> ApiRequest[int]:
        """Retries the delivery of all dead letters of a subscriber; returns how many there are.

        Those that are pulled wait in their queue again. Those whose message has expired stay dead letters.
        """
        return replace(self._post(f"{_consumer_path(subscriber)}/redrive", _read_count), is_repeatable=False)

    # Sources

    def put_source(
        self,
        name: str,
        *,
        kind: SourceKind = "push",
        url: str | None = None,
        interval: float = 300.0,
        dtd: str | None = None,
        xsd: str | None = None,
        paused: bool = False,
        updates: Updates = "ignore",
        follow: Sequence[str] = (),
        follow_hosts: Sequence[str] = (),
        doctype: Literal["allow", "strip", "refuse"] = "strip",
        validation: Literal["off", "annotate", "reject"] = "off",
        profile: str | Mapping[str, Any] | None = None,
        lookups: Sequence[Mapping[str, Any]] = (),
        only_if: Source | None = None,
    ) -> ApiRequest[Source]:
        """Registers a source, or changes one.

        Args:
            name: Its name.
            kind: ``"push"`` if it publishes by itself; else what the broker polls.
            url: The address that is polled.
            interval: Seconds between polls.
            dtd: The text of a DTD that its messages are said to follow.
            xsd: The text of a schema in XML Schema that they are said to follow.
            paused: Whether it is not polled for now.
            updates: When an entry that changes under its id is published again: never, with a later date, or with
                other content.
            follow: Media types of links, such as ``application/cap+xml``, whose documents are published in place of
                entries.
            follow_hosts: Hosts beside that of the feed to which these links may lead.
            doctype: Whether subscribers get a DOCTYPE (``"allow"``) or the message without it, or such messages are
                rejected.
            validation: Whether messages that the DTD or the schema does not allow are taken, with a note in the answer
                to their publisher (``"annotate"``), or rejected.
            profile: How its messages say what they update or cancel: ``"cap"``, another known name, or a mapping with
                the parts of a profile.
            lookups: What is looked up in tables and added to its messages: mappings with ``table``, ``key`` (an
                expression), ``element``, and if need be ``namespace``, ``columns``, ``at``, ``namespaces`` and
                ``missing``.
            only_if: The source as it was seen; if it has been changed since, nothing is done.

        Raises:
            UrlRefused: The address is not HTTP(S), or not public.
        """
        body = _present(kind=kind, url=url, interval=interval, dtd=dtd, xsd=xsd, paused=paused, updates=updates)
        body |= {"follow": list(follow), "follow_hosts": list(follow_hosts), "doctype": doctype}
        body |= {"validation": validation, "lookups": list(map(dict, lookups))} | _present(profile=profile)
        return _if_unchanged(replace(self._post(_source_path(name), Source.of, body), method="PUT"), only_if)

    def source(self, name: str) -> ApiRequest[Source]:
        """Returns a registered source."""
        return self._get(_source_path(name), Source.of)

    def sources(self) -> ApiRequest[list[Source]]:
        """Returns all registered sources."""
        return self._get("/sources", _sources)

    def polls(self, name: str) -> ApiRequest[list[PollReport]]:
        """Returns what the last polls of a source did, newest first."""
        return self._get(f"{_source_path(name)}/polls", _polls)

    def pause_source(self, name: str) -> ApiRequest[Source]:
        """Stops polling a source until it is resumed."""
        return self._post(f"{_source_path(name)}/pause", Source.of)

    def resume_source(self, name: str) -> ApiRequest[Source]:
        """Resumes polling a source."""
        return self._post(f"{_source_path(name)}/resume", Source.of)

    def delete_source(self, name: str) -> ApiRequest[None]:
        """Deletes a source. Its messages stay."""
        return replace(self._get(_source_path(name), _read_nothing), method="DELETE", is_repeatable=False)

    # Look-up tables

    def put_table(
        self,
        name: str,
        content: bytes | str,
        *,
        key: str | None = None,
        json_lines: bool = False,
        only_if: LookupTable | None = None,
    ) -> ApiRequest[LookupTable]:
        """Stores a table from which messages of sources are enriched, or another content of one.

        Args:
            name: Its name.
            content: CSV whose first line names the columns, or JSON lines.
            key: The column by which rows are found; by default the first.
            json_lines: Whether it is JSON lines.
            only_if: The table as it was seen; if it has been changed since, nothing is done.

        Raises:
            Invalid: Something is wrong with the content, at a line that is named.
            Conflict: A source uses a column that it does not have any more.
        """
        sent = content.encode() if isinstance(content, str) else content
        kind = _JSON_LINES if json_lines else "text/csv"
        request = self._upload(_table_path(name), LookupTable.of, sent, kind, key=key)
        return _if_unchanged(replace(request, method="PUT"), only_if)

    def table(self, name: str) -> ApiRequest[LookupTable]:
        """Returns a table, without its rows."""
        return self._get(_table_path(name), LookupTable.of)

    def tables(self) -> ApiRequest[list[LookupTable]]:
        """Returns all tables, without their rows."""
        return self._get("/tables", _tables)

    def table_rows(self, name: str) -> ApiRequest[list[dict[str, str]]]:
        """Returns the rows of a table, without values that are empty."""
        return replace(self._get(f"{_table_path(name)}/rows", _json_lines), raw=True)

    def delete_table(self, name: str) -> ApiRequest[None]:
        """Deletes a table.

        Raises:
            Conflict: A source uses it.
        """
        return replace(self._get(_table_path(name), _read_nothing), method="DELETE", is_repeatable=False)

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

    # Administration

    def identity(self) -> ApiRequest[Identity]:
        """Returns the tenant of the token, and what it permits."""
        return self._get("/me", Identity.of)

    def tenants(self) -> ApiRequest[list[Tenant]]:
        """Returns all tenants. Only operators may ask."""
        return self._get("/tenants", _tenants)

    def create_tenant(self, name: str, limits: Mapping[str, int] | None = None) -> ApiRequest[Tenant]:
        """Creates a tenant. Only operators may do so.

        Args:
            name: Its name.
            limits: Limits that differ from the broker's.

        Raises:
            Conflict: There is one of this name.
        """
        request = self._post("/tenants", Tenant.of, {"name": name, "limits": dict(limits or {})})
        return replace(request, is_repeatable=False)

    def erase_tenant(self, name: str) -> ApiRequest[bool]:
        """Erases a tenant with all that it has stored. Only operators may, and nothing of it can be had back.

        Returns whether nothing is left of it; otherwise the broker is still removing it.

        Raises:
            UnknownObject: There is no tenant of this name.
            Conflict: It is the first tenant.
        """
        request = self._get(f"/tenants/{quote(name, safe='')}", _read_is_done)
        return replace(request, method="DELETE", is_repeatable=False, seconds=_BULK_SECONDS)

    def clock(self) -> ApiRequest[Clock]:
        """Returns what the clock of the broker says, and whether messages expire by it. Only operators may ask."""
        return self._get("/clock", Clock.of)

    def confirm_clock(self) -> ApiRequest[Clock]:
        """Confirms the clock of the broker after it has jumped, so that messages expire by it again."""
        return self._post("/clock/confirm", Clock.of, {})

    def tokens(self, *, tenant: str | None = None) -> ApiRequest[list[Token]]:
        """Returns the tokens of your tenant, or of another one if you are an operator, without their secrets."""
        return self._get("/tokens", _tokens, tenant=tenant)

    def create_token(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        tenant: str | None = None,
        expires: datetime | None = None,
        sources: Iterable[str] | None = None,
        subscribers: Iterable[str] | None = None,
        certificates: Iterable[str] | None = None,
    ) -> ApiRequest[NewToken]:
        """Creates a token. Its secret is in the answer, and is never shown again.

        Args:
            name: Its purpose.
            scopes: ``publish``, ``subscribe`` or ``admin``.
            tenant: The tenant, for operators; by default your own.
            expires: When it opens nothing any more, with a time zone.
            sources: The only sources that it may publish as.
            subscribers: The only subscribers whose deliveries it may receive.
            certificates: The SHA-256 fingerprints of client certificates with one of which its requests have to come.
        """
        body = {"name": name, "scopes": sorted(set(scopes)), **_present(tenant=tenant)}
        body |= _present(
            expires=None if expires is None else expires.isoformat(),
            sources=None if sources is None else sorted(set(sources)),
            subscribers=None if subscribers is None else sorted(set(subscribers)),
            certificates=None if certificates is None else sorted(set(certificates)),
        )
        return replace(self._post("/tokens", NewToken.of, body), is_repeatable=False)

    def rotate_token(self, token: Token | int, *, keep_seconds: float = 3_600.0) -> ApiRequest[NewToken]:
        """Gives a token a new secret, which is in the answer, and is never shown again.

        Args:
            token: The token, or its number.
            keep_seconds: Time in which the old secret is still accepted; with 0 it opens nothing from now on.
        """
        number = token if isinstance(token, int) else token.id
        body = {"keep_seconds": keep_seconds}
        return replace(self._post(f"/tokens/{number}/rotate", NewToken.of, body), is_repeatable=False)

    def delete_token(self, token: Token | int) -> ApiRequest[None]:
        """Deletes a token: it opens nothing from now on."""
        number = token if isinstance(token, int) else token.id
        return replace(self._get(f"/tokens/{number}", _read_nothing), method="DELETE", is_repeatable=False)


# --- what is sent -----------------------------------------------------------------------------------------------------


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _if_unchanged(request: ApiRequest[T], seen: Subscription | Source | LookupTable | None) -> ApiRequest[T]:
    """Returns a request that changes only what is still as it was seen. Repeating it could not succeed."""
    if seen is None:
        return request
    return replace(request, headers={**request.headers, "If-Match": seen.etag}, is_repeatable=False)


def _as_dict(values: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if values is None else dict(values)


def _bulk(request: ApiRequest[T], *, is_repeatable: bool = True) -> ApiRequest[T]:
    return replace(request, is_repeatable=is_repeatable, raw=True, seconds=_BULK_SECONDS)


def _about(source: str | None, priority: int | None, deadline: Deadline | None) -> dict[str, Any]:
    """Returns what is said of a publication beside its id, as the broker reads it."""
    return {"source": source, "priority": priority, "deadline": _deadline_text(deadline)}


def _deadline_text(deadline: Deadline | None) -> str | None:
    """Returns a deadline as the broker reads it; a time without an offset would be taken to be in UTC."""
    if not isinstance(deadline, datetime):
        return deadline
    if deadline.tzinfo is None:
        raise ValueError("deadline: a time needs its offset from UTC")
    return deadline.isoformat()


def _publication(item: Publication | bytes | str) -> dict[str, Any]:
    publication = item if isinstance(item, Publication) else Publication(item)
    members = _present(
        id=publication.id or str(uuid.uuid4()),
        **_about(publication.source, publication.priority, publication.deadline),
    )
    if isinstance(publication.xml, str):
        return members | {"xml": publication.xml}
    return members | {"xml_base64": base64.b64encode(publication.xml).decode()}


def _subscription_path(key: str) -> str:
    return f"/subscriptions/{quote(key, safe='')}"


def _consumer_path(subscriber: str) -> str:
    return f"/consumers/{quote(subscriber, safe='')}"


def _table_path(name: str) -> str:
    return f"/tables/{quote(name, safe='')}"


def _source_path(name: str) -> str:
    return f"/sources/{quote(name, safe='')}"


def _query_fields(
    query: str | None,
    namespaces: Mapping[str, str] | None,
    dialect: Dialect | None,
    params: Params | None,
    numbers: Numbers | None,
) -> dict[str, Any]:
    values = None if params is None else dict(params)
    return _present(query=query, namespaces=_as_dict(namespaces), dialect=dialect, params=values, numbers=numbers)


def _delivery_fields(
    subscriber: str | None,
    webhook: Webhook | None,
    delivery: Mapping[str, Any] | None,
    overflow: Overflow | None,
    follow: bool | None,
    when: Mapping[str, Any] | None,
    urgency: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if webhook is not None:
        if delivery is not None:
            raise ValueError("give either webhook or delivery")
        delivery = _present(kind="webhook", url=webhook.url, secret=webhook.secret)
    declared = {"when": _as_dict(when), "urgency": _as_dict(urgency)}
    return _present(subscriber=subscriber, delivery=delivery, overflow=overflow, follow=follow, **declared)


def _start_fields(start: Start) -> dict[str, Any]:
    if isinstance(start, datetime):
        return {"time": start.isoformat()}
    return {"after": start} if isinstance(start, int) else {"message": start}


def _seek_fields(start: Start | Delivery) -> dict[str, Any]:
    if isinstance(start, Delivery):
        return {"delivery": start.id}
    return {"now": True} if start == "now" else _start_fields(start)


def _delivery_ids(deliveries: Iterable[Delivery | str]) -> list[str]:
    return [item if isinstance(item, str) else item.receipt or item.id for item in deliveries]


# --- how answers are read ---------------------------------------------------------------------------------------------


def _read_nothing(_: Any) -> None:
    """Ignores an answer without a body."""


def _read_count(answer: Mapping[str, Any]) -> int:
    return int(answer["count"])


_OUTCOMES: Final[Mapping[str, type[Accepted | Rejected | Refused]]] = {"rejected": Rejected, "refused": Refused}


def _outcomes(answer: Mapping[str, Any]) -> list[Accepted | Rejected | Refused]:
    return [_OUTCOMES.get(item["status"], Accepted).of(item) for item in answer["results"]]


def _subscription_page(answer: Mapping[str, Any]) -> Page[Subscription]:
    return Page([Subscription.of(item) for item in answer["subscriptions"]], answer["next"])


def _window_page(answer: Mapping[str, Any]) -> Page[WindowKey]:
    return Page([WindowKey.of(item) for item in answer["keys"]], answer["next"])


def _consumers(answer: Mapping[str, Any]) -> list[Consumer]:
    return [Consumer.of(item) for item in answer["consumers"]]


def _consumer_page(answer: Mapping[str, Any]) -> Page[Consumer]:
    return Page(_consumers(answer), answer["next"])


def _explanation_page(answer: Mapping[str, Any]) -> Page[Explanation]:
    return Page([Explanation(**item) for item in answer["explanations"]], answer["next"])


def _deliveries(answer: Mapping[str, Any]) -> list[Delivery]:
    return [Delivery.of(item) for item in answer["deliveries"]]


def _sources(answer: Mapping[str, Any]) -> list[Source]:
    return [Source.of(item) for item in answer["sources"]]


def _tables(answer: Mapping[str, Any]) -> list[LookupTable]:
    return [LookupTable.of(item) for item in answer["tables"]]


def _polls(answer: Mapping[str, Any]) -> list[PollReport]:
    return [PollReport.of(item) for item in answer["polls"]]


def _dead_letters(answer: Mapping[str, Any]) -> list[DeadLetter]:
    return [DeadLetter.of(item) for item in answer["dead_letters"]]


def _read_is_done(answer: Mapping[str, Any]) -> bool:
    return bool(answer["is_done"])


def _tenants(answer: Mapping[str, Any]) -> list[Tenant]:
    return [Tenant.of(item) for item in answer["tenants"]]


def _tokens(answer: Mapping[str, Any]) -> list[Token]:
    return [Token.of(item) for item in answer["tokens"]]


def _json_lines(answer: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.splitlines()]


def _imported(answer: bytes) -> Imported:
    *refused, counts = _json_lines(answer)
    errors = [
        RefusedLine(item["line"], item["key"], item["error"]["code"], item["error"]["detail"]) for item in refused
    ]
    return Imported(**counts, errors=errors)
