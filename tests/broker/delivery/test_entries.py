"""Cutting feeds, and finding files in listings."""

from __future__ import annotations

import codecs

import pytest
from lxml import etree

from twigcast.broker.sources.entries import cut_entries, digest_id, entry_id, is_feed
from twigcast.broker.sources.listing import find_links, name_in_folder

RSS = b"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>T</title>
<item><title>New</title><guid isPermaLink="false">g-2</guid><dc:creator>N</dc:creator></item>
<item><title>Old</title><link> http://x.example/1 </link></item>
</channel></rss>"""

RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="c"><items/></channel><item rdf:about="urn:i:1"><title>x</title><link>http://x.example/</link></item></rdf:RDF>"""

ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xmlns:m="urn:m"><id>f</id>
<entry><id>urn:e:1</id><content type="application/xml"><m:entry><id>inner</id></m:entry></content></entry>
<entry><link rel="self" href="http://x.example/self"/><link href="http://x.example/alt"/></entry>
<entry><title>nothing says who I am</title></entry></feed>"""


FEED = "<rss><item><guid>\u00e9</guid></item></rss>"
LATIN = "<?xml version='1.0' encoding='latin-1'?>"


def cut(feed: bytes, media_type: str | None = None) -> list[tuple[str, bytes]]:
    entries = list(cut_entries(feed, media_type=media_type, entry_bytes_max=1 << 20))
    assert all(entry.error is None for entry in entries)
    return [(entry.id, entry.xml) for entry in entries]


def test_entries_of_all_kinds_of_feeds_know_themselves() -> None:
    assert [name for name, _ in cut(RSS)] == ["g-2", "http://x.example/1"]
    assert [name for name, _ in cut(RDF)] == ["urn:i:1"]
    names = [name for name, _ in cut(ATOM)]
    assert names[:2] == ["urn:e:1", "http://x.example/alt"]
    assert names[2].startswith("sha256:")


def test_namespaces_of_the_feed_come_along() -> None:
    item = etree.fromstring(cut(RSS)[0][1])
    assert item.findtext("{http://purl.org/dc/elements/1.1/}creator") == "N"
    entry = etree.fromstring(cut(ATOM)[0][1])
    assert entry.tag == "{http://www.w3.org/2005/Atom}entry"
    assert entry.find(".//{urn:m}entry") is not None


@pytest.mark.parametrize(
    ("feed", "media_type"),
    [
        (FEED.encode("latin-1"), "text/xml; charset=ISO-8859-1"),
        ("<?xml version='1.0' encoding='utf-16'?><rss><item><guid>\u00e9</guid></item></rss>".encode("utf-16"), None),
        (
            f"{LATIN}{FEED}".encode(),
            "a/xml; charset=UTF-8",
        ),
        (
            f"{LATIN}{FEED}".encode("latin-1"),
            "a/xml",
        ),
        (codecs.BOM_UTF8 + FEED.encode(), "a/xml; charset=latin-1"),
        (FEED.encode(), 'a/xml; charset="no-such"'),
        (FEED.encode(), "a/xml; charset=us-ascii"),
    ],
)
def test_what_tells_the_encoding(feed: bytes, media_type: str | None) -> None:
    assert [name for name, _ in cut(feed, media_type)] == ["\u00e9"]


def test_a_broken_feed_gives_what_came_before_and_the_place() -> None:
    *whole, broken = cut_entries(RSS.replace(b"</channel>", b"<oops></channel>"), entry_bytes_max=1 << 20)
    assert [entry.id for entry in whole] == ["g-2", "http://x.example/1"]
    assert broken.error is not None
    assert broken.error.line == 5


def test_long_ids_become_digests() -> None:
    xml = b"<item><guid>" + b"x" * 500 + b"</guid></item>"
    assert entry_id(xml) == digest_id(b"x" * 500)
    assert entry_id(b"<item/>") == digest_id(b"<item/>")
    assert entry_id(b"<item><guid/><link>l</link></item>") == "l"


def test_what_looks_like_a_feed() -> None:
    assert is_feed(RSS)
    assert is_feed(RDF)
    assert is_feed(ATOM)
    assert is_feed(b"no XML at all"), "cutting says what is wrong with it"
    assert not is_feed(b"<html><body/></html>")


def test_links_of_an_index_page() -> None:
    page = b"""<html><h1>Index of /d</h1><a href="../">up</a><a href="?C=M">sort</a>
    <a href="a.xml">a</a><a href='b%20b.XML'>b</a><a href="/d/sub/c.xml.gz">c</a><a href="a.xml#x">again</a>
    <a href="http://elsewhere.example/d.xml">d</a><a href="/other/e.xml">e</a><a href="f.txt">f</a><A HREF=g.xml>g</A>
    <a href="http://[bad/x.xml">bad</a><a href="../d/../secret.xml">s</a>"""
    url = "http://x.example/d/"
    links = find_links(page, url, "text/html")
    assert links == [url + name for name in ("a.xml", "b%20b.XML", "sub/c.xml.gz", "g.xml")]
    assert [name_in_folder(link, url) for link in links] == ["a.xml", "b b.XML", "sub/c.xml.gz", "g.xml"]
    assert find_links(page, url + "index.html", "text/html") == links


def test_links_of_a_plain_list() -> None:
    assert find_links(b"a.xml\r\n\n b.xml \nc.txt\n", "http://x.example/d/list.txt", "text/plain") == [
        "http://x.example/d/a.xml",
        "http://x.example/d/b.xml",
    ]
