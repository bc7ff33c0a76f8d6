"""Generated document types: what they do to a message is what they do to it in expat and libxml2."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pytest
from lxml import etree

from twigcast.errors import RejectedMessage
from twigcast.reading.conversion import to_document

DOCUMENTS: Final = 3_000
SEED: Final = 20_261_129
NAMES: Final = ("a", "b", "p:a", "c", "élan", "name-of-twenty-bytes", "name-of-twenty-others")
ENTITIES: Final = ("e", "f", "g", "h", "é", "entity-of-twenty-b", "entity-of-twenty-c")


class Generator:
    """Makes documents with an internal subset, most of them well-formed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def document(self) -> str:
        choose = self._random.choice
        subset = "".join(self._declaration() for _ in range(self._random.randint(0, 7)))
        declaration = choose(["", "<?xml version='1.0'?>\n", "<?xml version='1.0' standalone='yes'?>"])
        return f"{declaration}<!DOCTYPE a [{subset}]>{choose(['', chr(10)])}{self._element('a', 0)}"

    def _declaration(self) -> str:
        choose = self._random.choice
        match self._random.randint(0, 9):
            case 0:
                return choose(["<!-- % <!ENTITY e 'no'> -->", "<?p ]> ?>", "\r\n", " "])
            case 1:
                return choose(
                    ["<!ELEMENT a ANY>", "<!ELEMENT b (a|b)*>", "<!ELEMENT c (#PCDATA)>", "<!NOTATION n SYSTEM 'n'>"]
                )
            case 2:
                text = self._value("'", 1).replace("%", "").replace("&", "&#38;")
                return f"<!ENTITY % p \"<!ENTITY {choose(ENTITIES)} '{text}'>\">%p;".replace('""', '"')
            case 3 | 4 | 5:
                return self._attributes()
        quote = choose("'\"")
        return f"<!ENTITY {choose(ENTITIES)} {quote}{self._entity(quote)}{quote}>"

    def _attributes(self) -> str:
        choose = self._random.choice
        kind = choose(["CDATA", "NMTOKEN", "NMTOKENS", "ID", "(x|y)"])
        default = "#IMPLIED" if kind == "ID" else choose(["#IMPLIED", "#REQUIRED", "'{}'", "#FIXED '{}'"])
        name = choose(["k", "l", "p:k", "xml:lang"])
        return f"<!ATTLIST {choose(NAMES)} {name} {kind} {default.format(self._value(chr(39), 1))}>"

    def _entity(self, quote: str) -> str:
        pieces = [
            "x",
            " ",
            "\n",
            "&lt;",
            "&#38;",
            "&#38;#38;",
            "&#60;",
            "&#13;",
            "]]",
            ">",
            "&#9;",
            "<b/>",
            "<b k=',x'>y</b>",
        ]
        pieces += ["<![CDATA[<&]]>", "<!--c-->", "<?p?>", "&e;", "&f;", "&g;", "<b>", "</b>", "é", ""]
        text = "".join(self._random.choices(pieces, k=self._random.randint(0, 4)))
        return text.replace(quote, "") if quote == '"' else text.replace("'", '"')

    def _value(self, quote: str, depth: int) -> str:
        pieces = ["x", " ", "  ", "\t", "\n", "\r\n", "&lt;", "&#65;", "&#10;", "&#32;", "é"]
        pieces += [] if depth else ["&e;", "&f;", "&g;", "&é;", "&entity-of-twenty-b;", ">", '"']
        return "".join(self._random.choices(pieces, k=self._random.randint(0, 4))).replace(quote, "")

    def _element(self, name: str, depth: int) -> str:
        choose = self._random.choice
        keys = [key for key in ("k", "l", "p:k", "xml:lang") if self._random.random() < 0.3]
        attributes = "".join(f" {key} = '{self._value(chr(39), 0)}'" for key in keys)
        attributes += " xmlns:p='u'" if depth == 0 else ""
        if depth > 3 or self._random.random() < 0.2:
            return f"<{name}{attributes}/>"
        pieces = [
            "t",
            "&e;",
            "&f;",
            "&g;",
            "&h;",
            "&é;",
            "&entity-of-twenty-b;",
            ">",
            "]",
            "&amp;",
            "<![CDATA[&e;]]>",
            "<!--&e;-->",
            "\r\n",
        ]
        parts = [
            self._element(choose(NAMES), depth + 1) if self._random.random() < 0.4 else choose(pieces)
            for _ in range(self._random.randint(0, 5))
        ]
        return f"<{name}{attributes}>{''.join(parts)}</{name}>"


def test_generated_doctypes_read_as_with_expat(same_reading: Callable[..., Any]) -> None:
    print(f"TWIGCAST_TEST_SEED={SEED}")
    accepted = 0
    for number in range(DOCUMENTS):
        document = Generator(SEED + number).document()
        accepted += same_reading(document.encode(), f"seed {SEED + number}").accepted
    assert DOCUMENTS // 4 < accepted < DOCUMENTS


def test_what_is_delivered_means_the_same_to_libxml2() -> None:
    parser = etree.XMLParser(attribute_defaults=True, no_network=True, resolve_entities="internal")
    compared = 0
    for number in range(DOCUMENTS // 3):
        document = Generator(SEED + number).document().encode()
        try:
            delivered = to_document(document)
            plain = etree.fromstring(delivered, etree.XMLParser(resolve_entities=False))
            tree = etree.fromstring(document, parser)
        except (RejectedMessage, etree.XMLSyntaxError):
            continue
        assert b"<!DOCTYPE" not in delivered
        assert etree.tostring(plain, method="c14n2") == etree.tostring(tree, method="c14n2"), f"seed {SEED + number}"
        compared += 1
    assert compared > DOCUMENTS // 30


@pytest.mark.parametrize("cut", range(1, 60))
def test_every_beginning_of_a_doctype_is_rejected(cut: int, twigcast_reading: Callable[[bytes], Any]) -> None:
    document = b"<!DOCTYPE a PUBLIC 'p' 's' [<!ENTITY e 'x'><!ATTLIST a b CDATA 'y'><!ELEMENT a ((b|c)*,d)>%p;]><a/>"
    assert not twigcast_reading(document[: len(document) - cut]).accepted
