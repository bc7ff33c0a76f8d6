"""Random damage to feeds: whole entries are read, nothing is made up, and no feed takes long."""

from __future__ import annotations

import random
import time

import pytest
from lxml import etree

from tests.seeds import printed_seed
from twigcast.broker.sources.entries import read_feed
from twigcast.broker.sources.memory import EntryMemory, identified

COUNT = 300


def random_feed(chance: random.Random) -> tuple[list[bytes], bytes, bytes]:
    """Items, each with its number, and what stands before and behind them."""
    texts = ["", "text", "<![CDATA[</item>]]>", "<!-- </item><item> -->", "<b>x</b>", "\n\u20ac"]
    items = [
        f"<item><guid>{number}</guid><d>{chance.choice(texts)}</d></item>".encode()
        for number in range(chance.randrange(1, 8))
    ]
    return items, b"<rss><channel><title>t</title>\n", b"\n</channel></rss>"


def test_damage_inside_of_one_item_leaves_all_others() -> None:
    chance = random.Random(printed_seed())
    damages = [
        b"<oops>",
        b"</oops>",
        b"&",
        b"&no;",
        b"\x00",
        b"\x0b",
        b"\xff",
        b"<",
        b"< >",
        b"<a b>",
        b"<a b='1' b='2'/>",
    ]
    for _ in range(COUNT):
        items, head, tail = random_feed(chance)
        bad = chance.randrange(len(items))
        at = items[bad].index(b"<d>") + 3
        broken = [*items[:bad], items[bad][:at] + chance.choice(damages) + items[bad][at:], *items[bad + 1 :]]
        feed = read_feed(head + b"\n".join(broken) + tail, entry_bytes_max=1 << 20)
        whole = [entry.xml for entry in feed.entries if entry.error is None and entry.id.isdigit()]
        assert whole == [item for index, item in enumerate(items) if index != bad], broken
        assert feed.error is None
        assert feed.document.is_feed


def test_any_damage_makes_up_no_entry() -> None:
    chance = random.Random(printed_seed())
    for _ in range(COUNT):
        items, head, tail = random_feed(chance)
        body = bytearray(head + b"\n".join(items) + tail)
        for _ in range(chance.randrange(1, 4)):
            begin = chance.randrange(len(body))
            body[begin : begin + chance.randrange(0, 9)] = chance.randbytes(chance.randrange(0, 4))
        feed = read_feed(bytes(body), entry_bytes_max=1 << 20)
        for entry in feed.entries:
            if entry.error is None and entry.id.isdigit() and not body.count(b"\x00"):
                assert entry.xml in bytes(body)
            if entry.error is None and not entry.id.startswith("sha256:"):
                etree.fromstring(entry.xml)


BIG = 4 << 20


@pytest.mark.parametrize(
    "body",
    [
        b"<rss><channel>" + b"<item><![CDATA[" * (BIG // 15),
        b"<rss><channel><item>" + b"<!--" * (BIG // 4),
        b"<rss><a &>" + b"<channel " * (BIG // 9) + b"<item><guid>1</guid></item>",
        b"x" + b"<?xml >" * (BIG // 7),
        b" " * BIG + b"<rss/>",
        b"\xef\xbb\xbf" * (BIG // 3) + b"<rss/>",
        b"<!--" + b"-" * BIG,
        b"<?xml " + b" encoding" * (BIG // 9),
        b"<rss><channel>" + b"<item><b></item>" * (BIG // 16),
        b"<rss><channel>" + b"</rss" * (BIG // 5),
        b"<html>" + b"<link rel='alternate' " * (BIG // 22),
    ],
    ids=range(11),
)
def test_feeds_that_are_made_to_take_long_do_not(body: bytes) -> None:
    began = time.process_time()
    read_feed(body, entry_bytes_max=1 << 20)
    assert time.process_time() - began < 30.0


def test_many_entries_of_one_id_take_no_longer_than_others() -> None:
    items = "".join(f"<item><guid>g</guid><title>{number}</title></item>" for number in range(20_000))
    feed = read_feed(f"<rss><channel>{items}</channel></rss>".encode(), entry_bytes_max=1 << 20)
    began = time.process_time()
    named, copies = identified(feed.entries, EntryMemory({}))
    assert (len({name for name, _ in named}), copies) == (20_000, 0)
    assert time.process_time() - began < 20.0


def test_a_feed_with_more_damage_than_is_read_on_behind_says_so() -> None:
    feed = read_feed(b"<rss><channel>" + b"<item><![CDATA[</item>" * 100 + b"</channel></rss>", entry_bytes_max=1 << 20)
    assert feed.error is not None
    assert "more than 32 places" in str(feed.error)
    assert len(feed.entries) == 32
