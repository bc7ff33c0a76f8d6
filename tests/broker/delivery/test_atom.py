"""Feeds, read by another parser and held against RFC 4287, RFC 5005 and RFC 9110."""

from __future__ import annotations

import random
import re
import time
from datetime import datetime
from types import SimpleNamespace
from urllib.parse import quote

import httpx2
import pytest
from lxml import etree

from tests.broker.delivery.http_face import BASE, client_of, feed_url
from tests.broker.delivery.pushing import now, publish, running, subscribe
from tests.seeds import printed_seed
from twigcast.broker.api import atom
from twigcast.broker.broker import Broker
from twigcast.broker.delivery.atom import AtomContent, FeedLinks, write_feed
from twigcast.broker.feed_addresses import Capabilities, FeedName, parse_feed_url
from twigcast.broker.model import Source, StoredMessage, SubscriptionState

pytestmark = pytest.mark.anyio

A = "{http://www.w3.org/2005/Atom}"
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
CAPABILITIES = Capabilities(bytes(range(32)))


def checked(feed: bytes) -> etree._Element:
    """A feed as RFC 4287 wants it: what section 4.1 says must and must not be there."""
    root = etree.fromstring(feed)
    assert root.tag == f"{A}feed"
    ids = []
    for element in [root, *root.findall(f"{A}entry")]:
        for name in ("id", "title", "updated"):
            assert len(element.findall(f"{A}{name}")) == 1, f"exactly one {name} in each"
        ids.append(str(element.findtext(f"{A}id")))
        assert ids[-1].startswith("urn:uuid:")
        updated = element.findtext(f"{A}updated") or ""
        assert DATE.fullmatch(updated)
        datetime.fromisoformat(updated)
        authors = element.findall(f"{A}author")
        assert authors, "an author in the feed and in each entry"
        assert all(author.findtext(f"{A}name") for author in authors)
    assert len(set(ids)) == len(ids)
    assert len(root.findall(f"{A}link[@rel='self']")) == 1
    for entry in root.findall(f"{A}entry"):
        (content,) = entry.findall(f"{A}content")
        if content.get("type") == "application/xml":
            assert len(content) == 1
            assert not (content.text or "").strip()
        else:
            assert content.get("type") == "text"
            assert len(content) == 0
    return root


def link(root: etree._Element, relation: str) -> str | None:
    result = root.find(f"{A}link[@rel='{relation}']")
    return None if result is None else result.get("href")


def contents(root: etree._Element) -> list[bytes]:
    return [canonical(content[0]) for content in root.iterfind(f"{A}entry/{A}content")]


def canonical(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False)  # type: ignore[call-overload, no-any-return]


def feed_of(*bodies: bytes, payload: bool = False) -> etree._Element:
    items = [
        AtomContent(
            StoredMessage(seq, 1, "s", f"m{seq}", 1e9 + seq, b"<x/>" if payload else body), body if payload else None
        )
        for seq, body in enumerate(bodies, start=1)
    ]
    links = FeedLinks("http://b.example/feeds/t/subscriptions/k", "http://b.example/websub")
    return checked(write_feed(FeedName("subscriptions", 1, "k", 1), items, links, CAPABILITIES, updated=0.0))


@pytest.mark.parametrize(
    "body",
    [
        b"<a/>",
        b"<a b='1'/>",
        b"<a>text &amp; <![CDATA[<more>]]></a>",
        b"<?xml version='1.0' encoding='UTF-8'?>\n<!-- before --><a><b>1</b></a><!-- after -->\n",
        b"<a xmlns='urn:x'><b/></a>",
        b"<p:a xmlns:p='urn:x' xmlns:q='urn:y' q:c='1'><d/></p:a>",
        b"<feed xmlns='http://www.w3.org/2005/Atom'><id>1</id></feed>",
        b"<a  title='x > y'   ><b xmlns='urn:z'/></a  >",
        b"<!DOCTYPE a [<!ENTITY e 'expanded'><!ATTLIST a d CDATA 'default'>]><a>&e;</a>",
        "<?xml version='1.0' encoding='ISO-8859-1'?><a>\u00e9</a>".encode("latin-1"),
        "<a>\u00e9\u4e2d</a>".encode("utf-16"),
        b"<a><!-- c --><?pi x?> \n </a>",
    ],
)
def test_a_message_is_in_its_entry_as_it_is(body: bytes) -> None:
    original = etree.fromstring(body, etree.XMLParser(attribute_defaults=True))
    assert contents(feed_of(body)) == [canonical(original)]


def test_random_documents_keep_their_names_and_values() -> None:
    seed = printed_seed()
    chance = random.Random(seed)

    def element(depth: int) -> str:
        prefix = chance.choice(["", "", "p:", "q:"])
        name = prefix + chance.choice(["a", "b", "title", "entry"])
        declared = ['xmlns:p="urn:p"', 'xmlns:q="urn:q"'] if depth == 0 or chance.random() < 0.2 else []
        if chance.random() < 0.3:
            declared.append(chance.choice(['xmlns=""', 'xmlns="urn:d"']))
        attributes = chance.sample(['x="1"', 'p:x="&lt;2"', "q:y='\"'"], chance.randrange(3))
        tag = " ".join([name, *declared, *attributes])
        if chance.random() < 0.2:
            return f"<{tag}/>"
        inner = [element(depth + 1) for _ in range(chance.randrange(3))] if depth < 4 else []
        return f"<{tag}>{chance.choice(['', 'text', '&#233;'])}{''.join(inner)}</{name}>"

    bodies = [element(0).encode() for _ in range(300)]
    assert contents(feed_of(*bodies)) == [canonical(etree.fromstring(body)) for body in bodies]


@pytest.mark.parametrize("payload", [b"<a/><b/>", b"just text & more", b"", b"\xff\x00"])
def test_what_is_no_document_is_text(payload: bytes) -> None:
    (content,) = feed_of(payload, payload=True).iterfind(f"{A}entry/{A}content")
    assert content.get("type") == "text"
    if payload[:1] != b"\xff":
        assert (content.text or "") == payload.decode()


def test_titles_and_summaries_are_taken_from_the_content() -> None:
    root = feed_of(
        b"<n><head><Headline>Dam <b>holds</b></Headline></head><body>All is well.</body></n>",
        b"<n>" + b"word " * 200 + b"</n>",
        b"<alert><event>Storm</event><title/><info><headline>Gale</headline></info></alert>",
        b"<n/>",
    )
    titles = [entry.findtext(f"{A}title") for entry in root.iterfind(f"{A}entry")]
    summaries = [entry.findtext(f"{A}summary") for entry in root.iterfind(f"{A}entry")]
    assert titles == ["Dam holds", "m2", "Gale", "m4"]
    assert summaries[0] == "Dam holds All is well."
    assert len(summaries[1] or "") <= 300
    assert summaries[3] is None


async def test_a_feed_is_read_without_a_token_and_told_to_its_owner_alone(broker: Broker) -> None:
    async with running(broker) as outbound, client_of(broker, outbound) as client:
        key = "fl\u00f6od / desk"
        subscription = await subscribe(broker, key, None, "//a")
        await publish(broker, "<a>1</a>", "<b/>", "<a>2</a>")
        url = await feed_url(client, quote(key, safe=""))
        assert (
            await client.get(f"/subscriptions/{quote(key, safe='')}/feed", headers={"Authorization": ""})
        ).status_code == 401
        async with httpx2.AsyncClient(transport=client._transport, base_url=BASE) as reader:
            answer = await reader.get(url)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/atom+xml; charset=utf-8"
            root = checked(answer.content)
            assert contents(root) == [b"<a>2</a>", b"<a>1</a>"], "newest first"
            assert root.findtext(f"{A}title") == key
            assert link(root, "self") == url
            assert link(root, "hub") == f"{BASE}/websub"
            assert answer.headers["link"] == f'<{BASE}/websub>; rel="hub", <{url}>; rel="self"'
            token = parse_feed_url(url, BASE).token  # type: ignore[union-attr]
            for wrong in (token[:-1] + ("A" if token[-1] != "A" else "B"), "1-", "x", "2" + token[1:], "9" * 30 + "-x"):
                answer = await reader.get(url.replace(token, wrong))
                assert answer.status_code == 404, wrong
            assert (await reader.get(url.replace("/subscriptions/", "/sources/"))).status_code == 404
            assert (await reader.get(url.replace("/subscriptions/", "/others/"))).status_code == 422
            await broker.unsubscribe(subscription)
            assert (await reader.get(url)).status_code == 404
            await subscribe(broker, key, None, "//a")
            assert (await reader.get(url)).status_code == 404, "a new subscription of the name is another one"


async def test_conditional_requests(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(broker) as outbound, client_of(broker, outbound) as client:
        await subscribe(broker, "k", None)
        url = await feed_url(client, "k")
        assert "last-modified" not in (await client.get(url)).headers, "more may come within this second"
        real = time.time
        monkeypatch.setattr(atom, "time", SimpleNamespace(time=lambda: real() + 100))
        first = await client.get(url)
        checked(first.content)
        for headers in (
            {"If-None-Match": first.headers["etag"]},
            {"If-None-Match": f'"x", W/{first.headers["etag"]}'},
            {"If-None-Match": "*"},
            {"If-Modified-Since": first.headers["last-modified"]},
        ):
            answer = await client.get(url, headers=headers)
            assert (answer.status_code, answer.content) == (304, b""), headers
            assert answer.headers["etag"] == first.headers["etag"]
        await publish(broker, "<a/>")
        assert (await client.get(url, headers={"If-None-Match": first.headers["etag"]})).status_code == 200
        second = await client.get(url)
        stale = {"If-None-Match": '"x"', "If-Modified-Since": second.headers["last-modified"]}
        assert (await client.get(url, headers=stale)).status_code == 200, "the tag counts, not the time"
        for since in ("yesterday", "Thu, 01 Jan 1970 00:00:00 GMT"):
            assert (await client.get(url, headers={"If-Modified-Since": since})).status_code == 200
        head = await client.head(url)
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", second.headers["etag"])


async def test_pages_hold_every_entry_once(broker: Broker) -> None:
    async with running(broker) as outbound, client_of(broker, outbound) as client:
        await subscribe(broker, "k", None)
        await publish(broker, *(f"<a>{number}</a>" for number in range(23)), source="gauges")
        await broker.change(lambda t: t.put_source(Source(0, 1, "gauges", "push", interval=60)))
        await publish(broker, "<a>elsewhere</a>", source="other")
        of_subscription = f"{await feed_url(client, 'k')}?limit=5"
        of_source = f"{await feed_url(client, 'gauges', 'sources')}?limit=5"
        for start, number in ((of_subscription, 24), (of_source, 23)):
            url: str | None = start
            results: list[bytes] = []
            pages = 0
            while url:
                root = checked((await client.get(url)).content)
                assert link(root, "self") == url
                assert link(root, "first") == start
                results += contents(root)
                url = link(root, "next")
                pages += 1
            assert len(results) == len(set(results)) == number
            assert results[-1] == b"<a>0</a>"
            assert pages == 5
        assert (await client.get(of_source.replace("limit=5", "limit=0"))).status_code == 422


async def test_a_large_page_is_cut_and_goes_on(broker: Broker) -> None:
    async with running(broker) as outbound, client_of(broker, outbound) as client:
        await subscribe(broker, "k", None)
        await publish(broker, *(f"<a>{number}{'x' * (3 << 20)}</a>" for number in range(4)))
        url = await feed_url(client, "k")
        first = checked((await client.get(url)).content)
        second = checked((await client.get(link(first, "next") or "")).content)
        assert [len(contents(page)) for page in (first, second)] == [2, 2]


async def test_state_does_not_matter_to_a_feed(broker: Broker) -> None:
    async with running(broker) as outbound, client_of(broker, outbound) as client:
        subscription = await subscribe(broker, "k", None)
        await publish(broker, "<a/>")
        await broker.set_state(subscription, SubscriptionState.PAUSED)
        await broker.acknowledge_up_to(subscription.queue_id, 10)
        assert now(broker, subscription).state is SubscriptionState.PAUSED
        assert len(contents(checked((await client.get(await feed_url(client, "k"))).content))) == 1
