"""Paths and texts of nodes, on random messages: a path leads back to its node, a text is that of libxml2."""

from __future__ import annotations

import pickle
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.strategies import Generator
from twigcast import Node, SubscriptionSet

ROUNDS = 100
SEED = 20261129
ALL = ("//node()", "//@*", "/", "//namespace::*")


def in_xpath_1(path: str) -> str:
    """A path with ``*:name`` written as libxml2 can read it."""
    return re.sub(r"\*:([\w.\-]+)", r"*[local-name() = '\1']", path)


def nodes(message: str | bytes, query: str) -> list[Node]:
    return SubscriptionSet({"q": query}).nodes(message, "q")


def check(message: str | bytes) -> int:
    """Checks all nodes of a message; how many there were."""
    tree = etree.ElementTree(etree.fromstring(message.encode() if isinstance(message, str) else message))
    count = 0
    for query in ALL:
        for node in nodes(message, query):
            path = node.path
            assert nodes(message, path) == [node], (message, path)
            if node.kind not in {"namespace", "document"}:
                assert tree.xpath(f"count({in_xpath_1(path)})") == 1, (message, path)
                assert tree.xpath(f"string({in_xpath_1(path)})") == node.text, (message, path)
            count += 1
    return count


def test_seeded_messages() -> None:
    total = 0
    for seed in range(SEED, SEED + ROUNDS):
        print(f"seed {seed}")
        total += check(Generator(random.Random(seed)).message())
    assert total > 2_000


@given(st.randoms(use_true_random=False))
def test_shrinkable_messages(source: random.Random) -> None:
    check(Generator(source).message())


@pytest.mark.parametrize(
    "message",
    [
        "<r a='1' xmlns:p='urn:p' xmlns:q='urn:q' p:a='2' q:a='3' p:b='4' xml:lang='de'/>",
        "<r>a<![CDATA[b]]>c<!-- d -->e<?f?>g<?f  h i ?></r>",
        "<r><![CDATA[]]>x</r>",
        "<!-- 1 --><?p q?><r/><!-- 2 --><?p r?>",
        "<?xml version='1.0'?>\r\n<r>\r\n<a b='x&#10;y\n z'/>&lt;&#65;\r\n</r>\r\n",
        "<p:r xmlns:p='u'><p:a/><a/><p:a xmlns:p='v'/><a xmlns='u'/></p:r>",
        "<r><a/>é<b/>日本<c d='é'/></r>",
        "<!DOCTYPE r SYSTEM 'r.dtd'><r>x<a/></r>",
        "<!DOCTYPE r><!-- c --><r a='b'>x</r>",
    ],
)
def test_messages_with_what_is_rare(message: str) -> None:
    assert check(message) > 2


def test_names_that_only_the_fifth_edition_allows() -> None:
    """Sampled from all that the fourth edition leaves out, which is most of Unicode. (The XPath of libxml2 cannot.)"""
    chance = random.Random(SEED)
    fifth = [*range(0x2070, 0x2190), *range(0x2C00, 0x2FF0), *range(0xF900, 0xFDD0), *range(0x10000, 0xF0000, 1_777)]
    for code in chance.sample(fifth, 60):
        n = chr(code)
        message = f"<r xmlns:{n}='urn:p'><{n} {n}='1&lt;'>t<?{n} u?></{n}><{n}:{n} {n}:{n}='2' {n}='3'/><!--{n}--></r>"
        found = nodes(message, "/r//* | //@* | //processing-instruction() | //comment()")
        assert [(node.path, node.text) for node in found] == [
            (f"/r/{n}", "t"),
            (f"/r/{n}/@{n}", "1<"),
            (f"/r/{n}/processing-instruction('{n}')", "u"),
            (f"/r/*:{n}[2]", ""),
            (f"/r/*:{n}[2]/@*:{n}[name() = '{n}:{n}']", "2"),
            (f"/r/*:{n}[2]/@{n}", "3"),
            ("/r/comment()", n),
        ]
        assert all(nodes(message, node.path) == [node] for node in found)


def test_paths_lead_back_in_a_set_with_a_default_namespace() -> None:
    message = "<a xmlns='urn:d'><b/><b xmlns='' c='1'>x<b/></b><c xmlns=''><b/></c></a>"
    for namespaces in ({}, {"": "urn:d"}, {"": "urn:other"}):
        subscriptions = SubscriptionSet(namespaces=namespaces)
        for query in ("//*", "//@*", "//text()"):
            subscriptions.add_many({"all": query}, replace=True)
            match = subscriptions.match(message)
            for node in [*match.nodes("all"), *match.freeze().nodes("all")]:
                subscriptions.add_many({"path": node.path}, replace=True)
                assert subscriptions.nodes(message, "path") == [node], (namespaces, node.path)
    assert nodes("<a><b/></a>", "//b")[0].path == "/a/b"


def test_a_mark_before_the_message_and_other_encodings() -> None:
    text = "<r>é<a b='ü'>x</a><a/></r>"
    for data in (
        b"\xef\xbb\xbf" + text.encode(),
        text.encode("utf-16"),
        ("<?xml version='1.0' encoding='latin-1'?>" + text).encode("latin-1"),
    ):
        found = nodes(data, "//a | //@b")
        assert [node.path for node in found] == ["/r/a[1]", "/r/a[1]/@b", "/r/a[2]"]
        assert [node.text for node in found] == ["x", "ü", ""]


def test_messages_that_declare_entities_and_defaults() -> None:
    message = (
        "<!DOCTYPE r [<!ENTITY e 'E&#65;'><!ATTLIST a k CDATA 'd'><!-- not a node --><?nor this?>]><r>1&e;<a/>&e;</r>"
    )
    found = nodes(message, "//text() | //a/@k | //comment()")
    assert [(node.path, node.text) for node in found if node.kind == "text"] == [
        ("/r/text()[1]", "1EA"),
        ("/r/text()[2]", "EA"),
    ]
    assert [node.text for node in found if node.kind == "attribute"] == ["d"]


def test_namespaces_say_what_they_stand_for() -> None:
    message = "<r xmlns='urn:d' xmlns:p='urn:p'><a xmlns='' xmlns:p='urn:q'/></r>"
    found = {(node.path, node.text) for node in nodes(message, "//namespace::*")}
    assert found == {
        ("/*:r/namespace::*[name() = '']", "urn:d"),
        ("/*:r/namespace::p", "urn:p"),
        ("/*:r/namespace::xml", "http://www.w3.org/XML/1998/namespace"),
        ("/*:r/a/namespace::p", "urn:q"),
        ("/*:r/a/namespace::xml", "http://www.w3.org/XML/1998/namespace"),
    }


def test_a_node_is_pickled_with_what_it_needs() -> None:
    for node in nodes("<r><a b='1'>x</a></r>", "//node() | //@b"):
        path = node.path  # before, so that what was computed for it is not pickled
        copy = pickle.loads(pickle.dumps(node))
        assert copy == node
        assert (copy.path, copy.text, copy.markup, copy.message) == (path, node.text, node.markup, node.message)
    made = Node("element", "a", 3, 7, 1, 4, b"<r><a/></r>")
    assert (made.path, made.text) == ("/r/a", "")
    with pytest.raises(ValueError, match="no node begins at byte 2"):
        _ = Node("element", "a", 2, 7, 1, 4, b"<r><a/></r>").path


def test_many_nodes_cost_one_reading_more() -> None:
    """Each path is found without looking at the whole message again: otherwise this would take very long."""
    message = "<r>" + "<a><b/></a>" * 5_000 + "</r>"
    paths = [node.path for node in nodes(message, "//b")]
    assert (len(paths), paths[-1]) == (5_000, "/r/a[5000]/b")
