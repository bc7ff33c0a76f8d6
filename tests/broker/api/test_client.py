"""``twigcast.client``: both clients against a running broker, and what they do when it is away."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, until
from twigcast.broker.errors import (
    Conflict,
    Forbidden,
    IdReused,
    Invalid,
    LimitReached,
    Standby,
    TooLarge,
    TooMany,
    Unauthorized,
    UnknownDelivery,
    UnknownObject,
)
from twigcast.broker.model import Scope
from twigcast.client import (
    Accepted,
    AsyncClient,
    Client,
    Delivery,
    Publication,
    Refused,
    Rejected,
    Retries,
    UnknownProblem,
    Unreachable,
    Webhook,
)
from twigcast.client.transport import EventParser, ReceivedEvents
from twigcast.errors import MalformedMessage, QuerySyntaxError, UndeclaredPrefix, UnreadableMessage

QUICK = Retries(attempts=3, first_wait=0.01)


@pytest.fixture
def client(party: Party) -> Iterator[Client]:
    with Client(party.url, party.tokens[Scope.ADMIN], retries=QUICK) as result:
        yield result


def test_publish_subscribe_receive(party_on_each_store: Party) -> None:
    with Client(party_on_each_store.url, party_on_each_store.tokens[Scope.ADMIN]) as client:
        created = client.subscribe("k/1", "/p:a", namespaces={"p": "urn:x"})
        assert (created.key, created.state, created.namespaces) == ("k/1", "active", {"p": "urn:x"})
        first = client.publish("<a xmlns='urn:x'>\u20ac</a>", message_id="one", source="s")
        assert first == Accepted(first.seq, "one", 1)
        assert client.publish("<a xmlns='urn:x'>\u20ac</a>", message_id="one", source="s").duplicate
        with pytest.raises(IdReused, match="another body under the id 'one'") as caught:
            client.publish(b"<a/>", message_id="one", source="s")
        assert (caught.value.seq, caught.value.message_id) == (first.seq, "one")
        (refused,) = client.publish_many([Publication(b"<a/>", "one", "s")])
        assert refused == Refused("one", "id-reused", str(caught.value), first.seq)
        assert client.publish("<?xml version='1.0' encoding='latin-1'?><a>\u20ac</a>").matches == 0
        (delivery,) = client.deliveries("k/1", wait=0.5)
        assert delivery.xml == "<a xmlns='urn:x'>\u20ac</a>"
        assert (delivery.key, delivery.message, delivery.source, delivery.seq) == ("k/1", "one", "s", first.seq)
        assert abs((datetime.now(UTC) - delivery.received).total_seconds()) < 60
        assert client.subscription("k/1").pending == 0, "what the loop has finished is acknowledged"
        stored = client.message(first.seq)
        assert (stored.id, stored.matches, stored.xml) == ("one", 1, delivery.xml)
        page = client.messages(limit=1)
        assert (len(page.messages), page.more) == (1, True)
        client.subscribe("later", "/*", start=page.cursor)
        assert [item.seq for item in client.deliveries("later", wait=1)] == [
            message.seq for message in client.messages(after=page.cursor).messages
        ]


def test_a_batch(client: Client) -> None:
    client.subscribe("k", "/a")
    raw = "<a>\u20ac</a>".encode("utf-16")
    good, bad, other = client.publish_many(["<a/>", b"<a", Publication(raw, "id", "own")], source="batch")
    assert isinstance(good, Accepted)
    assert isinstance(bad, Rejected)
    assert (bad.code, bad.line) == ("message-malformed", 1)
    assert isinstance(other, Accepted)
    assert other.id == "id"
    assert [(item.source, item.xml) for item in client.pull("k")] == [("batch", "<a/>"), ("own", "<a>\u20ac</a>")]


def test_the_life_of_a_subscription(client: Client) -> None:
    client.subscribe("k", "/a", subscriber="desk")
    assert client.replace("k", "/b").query == "/b"
    assert client.pause("k").state == "paused"
    assert client.resume("k").state == "active"
    assert [item.key for item in client.subscriptions(subscriber="desk")] == ["k"]
    hook = client.subscribe("hook", "/a", webhook=Webhook("http://127.0.0.1:9/", "secret"))
    assert (hook.kind, hook.url) == ("webhook", "http://127.0.0.1:9/")
    settings = {"kind": "webhook", "url": "http://127.0.0.1:9/"}
    assert client.replace("hook", "/b", delivery=settings).delivery == {**hook.delivery, "signed": False}
    with pytest.raises(ValueError, match="either webhook or delivery"):
        client.replace("hook", "/b", webhook=Webhook("http://127.0.0.1:9/"), delivery=settings)
    assert "secret" not in repr(Webhook("http://127.0.0.1:9/", "secret"))
    client.unsubscribe("k")
    with pytest.raises(UnknownObject):
        client.subscription("k")
    outcome = client.import_subscriptions([{"key": "1", "query": "/a"}, {"key": "2", "query": "/["}])
    assert (outcome.added, outcome.refused) == (1, 1)
    assert (outcome.errors[0].line, outcome.errors[0].key, outcome.errors[0].code) == (2, "2", "query-syntax")
    exported = client.export_subscriptions()
    assert {item["key"] for item in exported} == {"1", "hook"}
    assert client.import_subscriptions(exported, replace=True).replaced == 2
    assert client.dead_letters() == []


def test_questions(client: Client) -> None:
    report = client.check("//a[b = 'x']")
    assert report
    assert report.normal_form == "/descendant::a[b = 'x']"
    report = client.check("//a[")
    assert not report
    assert report.column == 5
    (result,) = client.explain("//a[b = 1]", xml="<a><b>2</b></a>")
    assert not result
    assert "2" in str(result)


def test_numbers_may_have_exponents(client: Client) -> None:
    heavy, planet = "//planet[@mass > 1000000]", "<planet mass='5.97e24'/>"
    assert client.subscribe("read", heavy, numbers="xs:double").dialect == "doubles"
    assert client.subscribe("unread", heavy).dialect == "xpath"
    assert client.publish(planet).matches == 1
    assert client.replace("unread", heavy, numbers="xs:double").dialect == "doubles"
    assert client.publish(planet).matches == 2
    assert [one.matches for one in client.explain(heavy, xml=planet, numbers="xs:double")] == [True]
    assert [one.matches for one in client.explain(heavy, xml=planet)] == [False]
    assert "xs:double" in str(client.check(heavy, numbers="xs:double").normal_form)
    with pytest.raises(Invalid, match="numbers='xs:double' is for the dialect 'xpath'"):
        client.subscribe("wrong", heavy, dialect="legacy", numbers="xs:double")


def test_problems_are_errors(client: Client, party: Party, broker: RunningBroker) -> None:
    with pytest.raises(QuerySyntaxError) as query:
        client.subscribe("k", "//a[b = ]")
    assert (query.value.text, query.value.column) == ("//a[b = ]", 9)
    assert str(query.value).endswith("^")
    with pytest.raises(UndeclaredPrefix) as prefix:
        client.subscribe("k", "/p:a")
    assert prefix.value.prefix == "p"
    with pytest.raises(MalformedMessage) as malformed:
        client.publish("<a>\n<b></a>")
    assert malformed.value.line == 2
    with pytest.raises(UnreadableMessage):
        client.publish("<a>" * 3_000 + "</a>" * 3_000)
    with pytest.raises(TooLarge):
        client.publish("<a>" + " " * 2_000_000 + "</a>")
    client.subscribe("k", "/a")
    with pytest.raises(Conflict):
        client.subscribe("k", "/a")
    with pytest.raises(UnknownObject):
        client.pull("nobody")
    with Client(party.url, "tc_nope") as other, pytest.raises(Unauthorized):
        other.messages()
    with Client(party.url, party.tokens[Scope.PUBLISH]) as other, pytest.raises(Forbidden):
        other.messages()
    limited = broker.party(publish_rate_max=1)
    with Client(limited.url, limited.tokens[Scope.ADMIN], retries=Retries(1)) as other:
        other.publish("<a/>")
        with pytest.raises(TooMany) as many:
            other.publish("<a/>")
        assert many.value.retry_after == 1
    full = broker.party(subscriptions_max=0)
    with Client(full.url, full.tokens[Scope.ADMIN]) as other, pytest.raises(LimitReached) as reached:
        other.subscribe("k", "/a")
    assert (reached.value.limit, reached.value.value) == ("subscriptions_max", 0)


def test_what_a_loop_leaves_is_given_back(client: Client) -> None:
    client.subscribe("k", "/a")
    for n in range(5):
        client.publish(f"<a>{n}</a>")
    got = []
    pulled = client.deliveries("k", wait=1)
    for delivery in pulled:
        got.append(delivery.xml)
        if len(got) == 3:
            break
    pulled.close()
    assert [item.xml for item in client.deliveries("k", wait=0.3)] == ["<a>2</a>", "<a>3</a>", "<a>4</a>"]


def test_a_stream_acknowledges_what_is_done(client: Client) -> None:
    client.subscribe("k", "/a")
    for n in range(5):
        client.publish(f"<a>{n}</a>")
    stream = client.stream("k")
    got = [next(stream).xml for _ in range(3)]
    stream.close()
    assert got == ["<a>0</a>", "<a>1</a>", "<a>2</a>"]
    assert client.subscription("k").pending == 3, "the last one was not finished"
    with contextlib.closing(client.stream("k", automatic=True)) as again:
        assert [next(again).xml for _ in range(3)] == ["<a>2</a>", "<a>3</a>", "<a>4</a>"]
        until(lambda: client.subscription("k").pending == 0)


def test_a_stream_goes_on_from_where_its_subscription_begins_anew(client: Client) -> None:
    client.subscribe("k", "/a")
    for n in range(4):
        client.publish(f"<a>{n}</a>")
    with contextlib.closing(client.stream("k")) as stream:
        got = [next(stream) for _ in range(4)]
        assert client.seek("k", got[1]).key == "k"
        assert [next(stream).id for _ in range(3)] == [item.id for item in got[1:]]
        client.seek("k", "now")
        client.publish("<a>new</a>")
        assert next(stream).xml == "<a>new</a>"
    assert [item.xml for item in client.deliveries("k", wait=0.3)] == ["<a>new</a>"]
    client.seek("k", got[0].received)
    assert len(client.pull("k", wait=5)) > 0


def test_an_unknown_delivery_is_refused_with_the_newest_valid(client: Client) -> None:
    client.subscribe("k", "/a")
    client.publish("<a/>")
    (delivery,) = client.pull("k")
    with pytest.raises(UnknownDelivery) as refused:
        client.acknowledge_up_to("k", f"7{delivery.id}")
    assert refused.value.newest == delivery.id


def test_the_client_for_event_loops(party_on_each_store: Party) -> None:
    party = party_on_each_store

    async def work() -> list[str | None]:
        async with AsyncClient(party.url, party.tokens[Scope.ADMIN]) as client:
            await client.subscribe("k", "/a")
            stream = client.stream("k")
            await asyncio.gather(*(client.publish(f"<a>{n}</a>") for n in range(20)))
            got = [(await anext(stream)).xml for _ in range(10)]
            await stream.aclose()
            got.pop()
            got += [item.xml async for item in client.deliveries("k", wait=0.5)]
            assert (await client.subscription("k")).pending == 0
            assert [item.key async for item in client.subscriptions()] == ["k"]
            with pytest.raises(UnknownObject):
                await client.unsubscribe("nobody")
            return got

    got = asyncio.run(work())
    assert sorted(got, key=str) == sorted([f"<a>{n}</a>" for n in range(20)], key=str)


# --- a broker that is away --------------------------------------------------------------------------------------------


class Flaky(httpx2.BaseTransport):
    """Answers as it is told."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, httpx2.Response)
        return answer


def away(*answers: Any) -> tuple[Client, Flaky]:
    transport = Flaky(*answers)
    return Client("http://broker.example", "tc_x", retries=QUICK, http=httpx2.Client(transport=transport)), transport


ACCEPTED = {"status": "accepted", "seq": 1, "id": "i", "matches": 0}
BUSY = {"code": "store-unavailable", "detail": "gone", "status": 503}


def test_what_may_be_repeated_is_repeated_with_the_same_id() -> None:
    client, transport = away(
        httpx2.ReadError("gone"), httpx2.Response(503, json=BUSY), httpx2.Response(201, json=ACCEPTED)
    )
    assert client.publish("<a/>").seq == 1
    ids = {str(request.url.params["id"]) for request in transport.requests}
    assert len(transport.requests) == 3
    assert len(ids) == 1, "the broker can tell that it is the same message"


def test_what_may_not_be_repeated_is_not() -> None:
    for answer, error in ((httpx2.ReadError("gone"), Unreachable), (httpx2.Response(503, json=BUSY), Exception)):
        client, transport = away(answer)
        with pytest.raises(error):
            client.subscribe("k", "/a")
        assert len(transport.requests) == 1
    client, transport = away(*[httpx2.ConnectError("refused")] * 3)
    with pytest.raises(Unreachable, match=r"http://broker\.example did not answer: refused"):
        client.subscribe("k", "/a")
    assert len(transport.requests) == 3, "what was not sent may be sent"


STANDBY = {"code": "standby", "detail": "ask the other one", "status": 503, "active": "http://two.example"}


def test_of_two_addresses_the_active_one_is_found_and_kept() -> None:
    transport = Flaky(
        httpx2.ConnectError("refused"),
        httpx2.Response(503, json=STANDBY),
        httpx2.Response(200, json={"count": 3}),
        httpx2.Response(200, json={"count": 1}),
    )
    http = httpx2.Client(transport=transport)
    client = Client("http://one.example, http://two.example/", "tc_x", retries=QUICK, http=http)
    # A request to a standby was certainly not carried out: this one may not be repeated otherwise.
    assert client.purge("k") == 3
    assert client.purge("k") == 1
    assert [request.url.host for request in transport.requests] == ["one.example", "two.example", *["one.example"] * 2]


def test_a_single_standby_says_who_is_active() -> None:
    client, _ = away(*[httpx2.Response(503, json=STANDBY)] * 3)
    with pytest.raises(Standby) as refused:
        client.purge("k")
    assert refused.value.active == "http://two.example"


def test_what_stands_in_between_is_told() -> None:
    client, _ = away(httpx2.Response(502, text="<html>bad gateway</html>"))
    with pytest.raises(UnknownProblem, match="502"):
        client.messages()
    client, _ = away(httpx2.Response(418, json={"code": "teapot", "detail": "short and stout"}))
    with pytest.raises(UnknownProblem) as unknown:
        client.messages()
    assert unknown.value.problem["code"] == "teapot"


def event(number: int) -> bytes:
    results = {
        "id": f"{number}-1", "key": "k", "redelivered": False, "rewritten": False, "seq": number, "message": "m",
        "source": "s", "received": "2026-01-31T12:00:00Z", "xml": f"<a>{number}\u2028</a>",
    }  # fmt: skip
    return f"id: {number}-1\nevent: delivery\ndata: {json.dumps(results, ensure_ascii=False)}\n\n".encode()


def test_a_stream_goes_on_after_a_break_and_gives_nothing_twice() -> None:
    kind = {"Content-Type": "text/event-stream"}

    def breaking(*parts: bytes) -> Callable[[], Iterator[bytes]]:
        def stream() -> Iterator[bytes]:
            yield from parts
            raise httpx2.ReadError("broken")

        return stream

    client, transport = away(
        httpx2.Response(200, headers=kind, content=breaking(b"retry: 1000\n\n", event(1), event(2)[:40])()),
        httpx2.ConnectError("refused"),
        httpx2.Response(200, headers=kind, content=breaking(event(1) + event(2), b":\n\n" + event(3))()),
    )
    stream = client.stream("k", automatic=True)
    assert [next(stream).seq for _ in range(3)] == [1, 2, 3]
    assert [request.headers.get("last-event-id") for request in transport.requests] == [None, "1-1", "1-1"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_events_may_be_cut_anywhere(size: int) -> None:
    data = b"retry: 5\n\n" + event(1) + b":\n\n" + event(2)
    parser = EventParser(ReceivedEvents(None))
    results: list[Delivery | None] = []
    for start in range(0, len(data), size):
        results += parser.feed(data[start : start + size])
    assert [item and item.seq for item in results] == [None, 1, None, 2]
    assert [item.xml for item in results if item] == ["<a>1\u2028</a>", "<a>2\u2028</a>"]


def test_what_was_seen_is_remembered_within_bounds() -> None:
    seen = ReceivedEvents(None)
    parser = EventParser(seen)
    for number in range(1, 25_001):
        (delivery,) = parser.feed(event(number))
        assert delivery is not None
        assert seen.is_new(delivery)
        assert not seen.is_new(delivery)
    assert len(seen._ids) <= 20_000
