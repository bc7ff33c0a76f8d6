"""Feeds as real servers send them. A test named after a scenario (N-01, ...) shows what that scenario asks for."""

from __future__ import annotations

import gzip
import logging
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree

from tests.broker.delivery.conftest import OpenBroker, both_stores
from tests.broker.delivery.feed_site import (
    Site,
    ids,
    polled,
    register,
    rejected,
    reports,
    rounds,
    rss,
    state,
    stored,
)
from tests.broker.delivery.pushing import quick, running, subscribe, until
from tests.broker.delivery.receiver import Got, Receiver, Reply
from twigcast.broker.broker import Broker
from twigcast.broker.sources import poll as polling
from twigcast.broker.sources.entries import Feed, read_feed

pytestmark = pytest.mark.anyio

ATOM = "http://www.w3.org/2005/Atom"
ATOM_03 = "http://purl.org/atom/ns#"


@pytest.fixture(autouse=True)
def _attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_CHECK_SECONDS", 0.05)


def packed(body: bytes) -> bytes:
    # Without the time, so that the names of tests are the same in each process.
    return gzip.compress(body, mtime=0)


def item(guid: str, more: str = "", title: str = "t") -> str:
    return f"<item><guid>{guid}</guid><title>{title}</title>{more}</item>"


def channel(*items: str, attributes: str = "") -> bytes:
    return f"<rss version='2.0' {attributes}><channel>{''.join(items)}</channel></rss>".encode()


def entry(name: str, more: str = "") -> str:
    return f"<entry><id>{name}</id><title>t</title>{more}</entry>"


def atom(*entries: str, head: str = "", namespace: str = ATOM, attributes: str = "") -> bytes:
    declared = f"xmlns='{namespace}'" if namespace else ""
    return f"<feed {declared} {attributes}>{head}{''.join(entries)}</feed>".encode()


async def test_n01_a_blank_line_before_the_declaration_is_a_warning(broker: Broker) -> None:
    site = Site(b"\n<?xml version='1.0' encoding='UTF-8'?>\n" + rss("2", "1"))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1", "2"])
        now = await polled(broker)
        assert now["last_error"] is None
        assert now["warnings"] == ["line 2: white space stands before the XML declaration"]


async def test_n02_junk_behind_the_root_slows_nothing_down(broker: Broker) -> None:
    site = Site(rss("2", "1") + b"\n<b>Notice</b>: undefined & <br>", validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1", "2"])
        began = time.monotonic()
        await rounds(site, 8)
        assert time.monotonic() - began < 4.0, "it is polled at its interval"
        now = await polled(broker)
        assert (now["last_error"], now["failures"]) == (None, 0)
        assert now["warnings"] == ["line 2: 32 bytes behind the end of the feed were skipped"]
        assert rejected(broker) == []
        site.body = rss("3", "2", "1") + b"\0\0"
        await until(lambda: ids(broker) == ["1", "2", "3"])


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("a&nbsp;b", "nbsp"),  # N-03
        ("a\x0bb", "U+000B"),  # N-04
        ("a & b", ""),
        ("a<b>c", "does not match"),
        ("a<b c=d/>", ""),
        ("<![CDATA[never ends", ""),
        ("<!-- never ends", ""),
        ("<x:y/>", "x"),
        ("&#0;", ""),
        ("<b", ""),
    ],
)
async def test_n03_n04_one_bad_item_does_not_keep_the_others_from_being_read(
    broker: Broker, broken: str, reason: str
) -> None:
    feed = channel("\n", item("3", title=broken), "\n", item("2"), item("1"))
    site = Site(feed)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1", "2"])
        now = await polled(broker)
        (refused,) = rejected(broker)
        assert b"<guid>3</guid>" in refused.body
        assert b"<guid>2</guid>" not in refused.body
        assert reason in refused.reason
        assert (now["last_error"], now["failures"]) == (None, 0)
        report = next(report for report in reports(broker) if report["took"])
        assert (report["took"], report["refused_count"]) == (2, 1)
        assert report["refused"][0]["line"] == 2, "in the feed"
        assert "if-none-match" in site.server.got[-1].headers, "the feed was read to its end"
        site.body = channel(item("3"), item("2"), item("1"))
        await until(lambda: ids(broker) == ["1", "2", "3"])


async def test_several_bad_items_each_with_its_column(broker: Broker) -> None:
    feed = channel(item("5", title="<b>"), item("4"), item("3", title="</b>"), item("2"), item("1", title="\x01"))
    site = Site(feed)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["2", "4"])
        await polled(broker)
        assert len(rejected(broker)) == 3
        columns = [refusal["column"] for refusal in reports(broker)[-1]["refused"]]
        assert sorted(columns) == [
            feed.index(b"</title", feed.index(b"<b>")) + 1,
            feed.index(b"</b>") + 1,
            feed.index(b"\x01") + 1,
        ]


async def test_a_damaged_head_does_not_hide_the_items_behind_it(broker: Broker) -> None:
    site = Site(channel("<title>a & b</title>", item("2"), item("1")), validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1", "2"])
        assert "line 1" in (await polled(broker))["last_error"]
        assert len(rejected(broker)) == 1, "the feed, to be looked at"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (atom(entry("1"), namespace=ATOM_03, attributes="version='0.3'"), "atom"),  # N-05
        (atom(entry("1"), namespace=""), "atom"),
        (atom(entry("1")), "rss"),  # N-21
        (atom(entry("1")).replace(b"<", b"<a:").replace(b"<a:/", b"</a:").replace(b"xmlns=", b"xmlns:a="), "atom"),
        (rss("1"), "atom"),
        (rss("1").replace(b"2.0", b"0.91"), "rss"),
        (
            b"<!DOCTYPE rss PUBLIC '-//Netscape Communications//DTD RSS 0.91//EN' 'http://x.example/d'>" + rss("1"),
            "rss",
        ),
        (rss("1").replace(b"<channel>", b"<channel/>").replace(b"</channel>", b""), "rss"),
        (
            b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
            b"<channel/><item rdf:about='1'><title>t</title></item></rdf:RDF>",
            "rss",
        ),
        (
            b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' "
            b"xmlns='http://my.netscape.com/rdf/simple/0.9/'><item><link>1</link></item></rdf:RDF>",
            "rss",
        ),
        (b"<rss xmlns='http://backend.userland.com/rss2'><channel><item><guid>1</guid></item></channel></rss>", "rss"),
    ],
)
async def test_n05_n21_the_root_tells_the_kind_of_a_feed(broker: Broker, body: bytes, kind: Any) -> None:
    site = Site(body)
    async with site.server, running(broker):
        await register(broker, site.server.url, kind)
        await until(lambda: ids(broker) == ["1"])
        assert (await polled(broker))["last_error"] is None


async def test_a_feed_may_become_one_of_another_kind(broker: Broker) -> None:
    site = Site(rss("1"))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1"])
        site.body = atom(entry("2"), entry("1"))
        await until(lambda: ids(broker) == ["1", "2"])
        site.body = b"<html><body>moved</body></html>"
        await until(lambda: "HTML" in str(state(broker)["last_error"]))
        site.body = rss("3", "1")
        await until(lambda: ids(broker) == ["1", "2", "3"])
        assert (await polled(broker))["last_error"] is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"version": "https://jsonfeed.org/version/1.1", "items": []}', "a JSON Feed, which is not read"),
        (b" [1]", "but JSON"),
        (b"", "it is empty"),
        (b"gone fishing", "does not begin as XML does"),
        (b"<opml><body/></opml>", "its root element is 'opml'"),
        (b"<!doctype html><p>a<p>b", "an HTML page"),
        (
            b"<HTML><head><link rel='alternate' type='application/rss+xml' href='/feed.xml'></head><br></HTML>",
            "it names this feed: http://127.0.0.1",
        ),
    ],
)
async def test_what_is_no_feed_is_named(broker: Broker, body: bytes, reason: str) -> None:
    headers = {"Content-Type": "application/rss+xml"}
    async with Receiver(lambda got: Reply(200, headers, body)) as server, running(broker):
        await register(broker, server.url)
        await until(lambda: reason in str(state(broker).get("last_error")))
        assert ids(broker) == []
        assert reports(broker)[0]["error"] == state(broker)["last_error"]


async def test_n06_items_of_one_guid_are_told_apart(broker: Broker) -> None:
    site = Site(channel(*(item("same", title=title) for title in "cba")))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: len(ids(broker)) == 3)
        assert [b"<title>%c</title>" % title in one.xml for title, one in zip(b"abc", stored(broker), strict=True)] == [
            True
        ] * 3
        site.body = channel(*(item("same", title=title) for title in "dcb"))
        await until(lambda: len(ids(broker)) == 4)
        site.body = channel(item("same", title="e"))
        await until(lambda: len(ids(broker)) == 5)
        site.body = channel(*(item("same", title=title) for title in "edcba"))
        await polled(broker)
        assert len(ids(broker)) == 5, "each once, whatever the feed shows of them"


async def test_n06_a_guid_that_repeats_only_later_publishes_nothing_twice(broker: Broker) -> None:
    site = Site(channel(item("g", title="a")))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["g"])
        site.body = channel(item("g", title="b"), item("g", title="a"))
        await until(lambda: len(ids(broker)) == 2)
        site.body = channel(item("g", title="b"))
        await polled(broker)
        assert len(ids(broker)) == 2


async def test_n06_true_copies_are_published_once_and_counted(broker: Broker) -> None:
    site = Site(channel(item("g"), item("g"), item("h")))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["h", "g"])
        await polled(broker)
        assert reports(broker)[-1]["skipped"] == {"repeated": 1}


@pytest.mark.parametrize("foreign", ["<v:id>same</v:id>", "<v:guid>same</v:guid>", "<v:link>same</v:link>"])
async def test_n07_ids_of_foreign_vocabularies_identify_nothing(broker: Broker, foreign: str) -> None:
    items = "".join(f"<item>{foreign}<link>http://x.example/{n}</link></item>" for n in "321")
    site = Site(channel(items, attributes="xmlns:v='urn:v'"))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == [f"http://x.example/{n}" for n in "123"])


async def test_n08_what_the_feed_says_holds_for_its_entries(broker: Broker) -> None:
    head = "<author><name>Ann</name></author>"
    body = atom(entry("1"), head=head, attributes="xml:lang='de' xml:base='http://b.example/x/'")
    site = Site(body)
    async with site.server, running(broker):
        subscription = await subscribe(broker, "k", None, "/*[lang('de')]")
        await register(broker, site.server.url, "atom")
        await until(lambda: ids(broker) == ["1"])
        await until(lambda: broker.store.pending_count(subscription.queue_id) == 1)
        root = etree.fromstring(stored(broker)[0].xml)
        assert root.findtext(f"{{{ATOM}}}author/{{{ATOM}}}name") == "Ann"
        assert root.base == "http://b.example/x/"


@pytest.mark.parametrize("namespace", [ATOM_03, ""])
async def test_n08_authors_of_feeds_in_other_dialects_hold_too(broker: Broker, namespace: str) -> None:
    site = Site(atom(entry("1"), head="<author><name>Ann</name></author>", namespace=namespace))
    async with site.server, running(broker):
        await register(broker, site.server.url, "atom")
        await until(lambda: ids(broker) == ["1"])
        assert b"<name>Ann</name>" in stored(broker)[0].xml


def dated(name: str, updated: str, title: str = "t") -> str:
    return f"<entry><id>{name}</id><title>{title}</title><updated>{updated}</updated></entry>"


@both_stores
async def test_n19_updates_are_published_where_the_source_is_set_so(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    site = Site(atom(dated("1", "2026-11-01T10:00:00Z")), validates=False)
    async with site.server:
        async with running(broker):
            await register(broker, site.server.url, "atom", updates="updated")
            await until(lambda: ids(broker) == ["1"])
            site.body = atom(dated("1", "2026-11-01T10:00:00Z", "typo"))
            await polled(broker)
            assert ids(broker) == ["1"], "without a later date it is no update"
            assert reports(broker)[0]["skipped"] == {"changed": 1}
            site.body = atom(dated("1", "2026-11-01T12:30:00+01:00", "new"))
            await until(lambda: len(ids(broker)) == 2)
        broker = await open_broker()
        async with running(broker):
            await polled(broker)
            assert len(ids(broker)) == 2, "a restart publishes no update again"
            site.body = atom(dated("1", "2026-11-01T10:00:00Z"))
            await polled(broker)
            site.body = atom(dated("1", "2026-11-02T10:00:00Z", "third"))
            await until(lambda: len(ids(broker)) == 3)
            first, second, third = stored(broker)
            assert b"new" in second.xml
            assert b"third" in third.xml
            assert first.message_id == "1"
            assert second.message_id.startswith("1~1~")
            assert third.message_id.startswith("1~2~")


async def test_n19_without_the_setting_all_is_as_before(broker: Broker) -> None:
    site = Site(atom(dated("1", "2026-11-01T10:00:00Z")), validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url, "atom")
        await until(lambda: ids(broker) == ["1"])
        site.body = atom(dated("1", "2026-11-03T10:00:00Z", "new"))
        await polled(broker)
        assert ids(broker) == ["1"]
        await register(broker, site.server.url, "atom", updates="updated")
        await polled(broker)
        assert ids(broker) == ["1"], "what changed before updates were asked for is no update"
        site.body = atom(dated("1", "2026-11-04T10:00:00Z", "newer"))
        await until(lambda: len(ids(broker)) == 2)


async def test_changed_content_is_an_update_where_the_source_is_set_so(broker: Broker) -> None:
    site = Site(channel(item("1", title="a")), validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url, updates="content")
        await until(lambda: ids(broker) == ["1"])
        for count, title in enumerate("bab", start=2):
            site.body = channel(item("1", title=title), attributes=f"xmlns:n{count}='urn:x'")
            await until(lambda count=count: len(ids(broker)) == count)  # type: ignore[misc]
        site.body = channel(item("1", title="b"), attributes="xmlns:other='urn:x' xml:lang='de'")
        await polled(broker)
        assert len(ids(broker)) == 4, "what the feed around it says is no content of the entry"
        assert sum(report["updated"] for report in reports(broker)) == 3


@pytest.mark.parametrize(
    ("before", "after", "is_update"),
    [
        ("Sun, 01 Nov 2026 10:00:00 GMT", "Sun, 01 Nov 2026 10:00:00 EST", True),
        ("01 Nov 26 10:00 GMT", "Sun, 01 Nov 2026 11:00:00 +0100", False),
        ("2026-11-01", "2026-11-01 00:00:01", True),
        ("2026-11-01T10:00:00.5Z", "2026-11-01T10:00:00Z", False),
        ("1793527200", "1793527201000", True),
        ("gestern", "heute", True),
        ("gestern", "gestern", False),
        ("heute", "2026-11-01", True),
    ],
)
async def test_dates_come_in_odd_forms(broker: Broker, before: str, after: str, is_update: bool) -> None:
    site = Site(channel(item("1", f"<pubDate>{before}</pubDate>", "a")), validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url, updates="updated")
        await until(lambda: ids(broker) == ["1"])
        site.body = channel(item("1", f"<pubDate>{after}</pubDate>", "b"))
        await polled(broker)
        assert len(ids(broker)) == 1 + is_update


async def test_moved_feeds_are_told_and_asked_without_old_validators(broker: Broker) -> None:
    def reply(got: Got) -> Reply:
        if got.path == "/old":
            return Reply(301, {"Location": "/new"})
        return Reply(304) if got.headers.get("if-none-match") else Reply(200, {"ETag": "1"}, rss(got.path))

    async with Receiver(reply) as server, running(broker):
        await register(broker, f"{server.url}/old")
        await until(lambda: ids(broker) == ["/new"])
        assert (await polled(broker))["warnings"] == [
            f"it has moved for good to {server.url}/new: register that address"
        ]
        await register(broker, f"{server.url}/other")
        await until(lambda: ids(broker) == ["/new", "/other"])


async def test_a_feed_that_is_gone_for_good_is_asked_once_a_day(broker: Broker) -> None:
    async with Receiver(lambda got: Reply(410)) as server, running(broker):
        await register(broker, server.url)
        await until(lambda: bool(reports(broker)))
        report = reports(broker)[0]
        assert report["error"] == "the server answered with status 410: the feed is gone for good"
        assert report["next_poll"] - report["at"] > 80_000
        assert report["status"] == 410


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Encoding": "gzip"}, packed(rss("1"))),
        ({"Content-Encoding": "GZIP"}, packed(rss("1"))),
        ({"Content-Encoding": "gzip"}, packed(rss("1")[:20]) + packed(rss("1")[20:])),
        ({"Content-Encoding": "gzip"}, rss("1")),
        ({"Content-Type": "application/gzip"}, packed(rss("1")[:20]) + packed(rss("1")[20:])),
        ({"Content-Type": "text/html"}, rss("1")),
    ],
)
async def test_packed_feeds_are_read_whatever_the_server_says(
    broker: Broker, headers: dict[str, str], body: bytes
) -> None:
    async with Receiver(lambda got: Reply(200, headers, body)) as server, running(broker):
        await register(broker, server.url)
        await until(lambda: ids(broker) == ["1"])


async def test_an_unknown_packing_is_named(broker: Broker) -> None:
    async with Receiver(lambda got: Reply(200, {"Content-Encoding": "br"}, b"x")) as server, running(broker):
        await register(broker, server.url)
        await until(lambda: "packed with 'br'" in str(state(broker).get("last_error")))


EURO = "<item><guid>1</guid><title>\u20ac\u00e9</title></item>"


@pytest.mark.parametrize(
    ("declared", "encoding", "media_type", "warns"),
    [
        ("utf-8", "utf-8", "text/xml; charset=ISO-8859-1", True),
        (None, "utf-8", "text/xml; charset=windows-1252", True),
        ("windows-1252", "windows-1252", "text/xml; charset=utf-8", True),
        ("utf-16", "utf-8", "text/xml", True),
        ("x-unknown", "utf-8", "text/xml", True),
        ("utf-8", "utf-8-sig", "text/xml; charset=latin-1", False),
        ("utf-8", "utf-16", "text/xml", False),
        (None, "utf-16-le", "text/xml", False),
        ("windows-1252", "windows-1252", None, False),
        (None, "windows-1252", "text/xml; charset=windows-1252", False),
    ],
)
async def test_the_encoding_is_what_the_bytes_say(
    broker: Broker, declared: str | None, encoding: str, media_type: str | None, warns: bool
) -> None:
    start = f"<?xml version='1.0' encoding='{declared}'?>" if declared else ""
    body = (start + channel(EURO).decode()).encode(encoding)
    headers = {"Content-Type": media_type} if media_type else {}
    async with Receiver(lambda got: Reply(200, headers, body)) as server, running(broker):
        await register(broker, server.url)
        await until(lambda: ids(broker) == ["1"])
        assert stored(broker)[0].xml.decode() == EURO
        await until(lambda: bool(reports(broker)))
        assert bool(reports(broker)[-1]["warnings"]) == warns


async def test_notices_before_a_feed_are_skipped(broker: Broker) -> None:
    site = Site(b"<br />\n<b>Warning</b>: x\n<?xml version='1.0'?>" + rss("1"))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1"])
        assert (await polled(broker))["warnings"] == ["25 bytes that stand before the feed were skipped"]


async def test_items_without_any_id_are_known_by_their_content(broker: Broker) -> None:
    site = Site(channel("<item><title>b</title></item>", "<item><title>a</title></item>"), validates=False)
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: len(ids(broker)) == 2)
        site.body = channel("<item><title>c</title></item>", "<item><title>b</title></item>")
        await until(lambda: len(ids(broker)) == 3)
        await polled(broker)
        assert len(ids(broker)) == 3


async def test_ids_that_differ_in_case_are_two(broker: Broker) -> None:
    permalink = "<item><guid isPermaLink='true'>http://x.example/A</guid></item>"
    site = Site(channel(permalink, permalink.replace("/A", "/a")))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["http://x.example/a", "http://x.example/A"])


async def test_an_item_over_the_limit_keeps_none_of_the_others_back(broker: Broker) -> None:
    settings = quick()
    limits = polling.PollLimits(feed_bytes_max=100_000, message_bytes_max=1_000)
    settings = replace(settings, polls=replace(settings.polls, limits=limits))
    site = Site(channel(item("3"), item("2", "x" * 2_000), item("1")))
    async with site.server, running(broker, settings):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1", "3"])
        assert (await polled(broker))["last_error"] is None
        assert "larger than" in reports(broker)[-1]["refused"][0]["reason"]


async def test_feeds_are_read_beside_the_event_loop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    read = read_feed

    def noted(body: bytes, **more: Any) -> Feed:
        threads.append(threading.get_ident())
        return read(body, **more)

    monkeypatch.setattr(polling, "read_feed", noted)
    site = Site(rss("1"))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await until(lambda: ids(broker) == ["1"])
        assert threading.get_ident() not in threads
        assert threads


async def test_each_poll_says_what_it_did(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "twigcast.broker.sources.poll")
    site = Site(channel(item("2"), item("bad", title="&no;"), item("1")))
    async with site.server, running(broker):
        await register(broker, site.server.url)
        await polled(broker)
        latest, first = reports(broker)
        assert (first["took"], first["updated"], first["refused_count"], first["status"]) == (2, 0, 1, 200)
        assert first["bytes"] == len(site.body)
        assert (latest["took"], latest["status"]) == (0, 304)
        assert latest["next_poll"] > latest["at"]
        lines = [record.getMessage() for record in caplog.records if "poll of the source" in record.getMessage()]
        assert "took 2, updated 0, skipped 0, refused 1 (" in lines[0]
        assert f"{len(site.body):,} bytes, status 200" in lines[0]
