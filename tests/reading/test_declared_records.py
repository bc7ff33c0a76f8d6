"""Records of a document that declares entities and attributes: as lxml finds them in the whole document."""

import io
import random

import pytest
from lxml import etree

from tests.seeds import printed_seed
from twigcast import SubscriptionSet
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import cut_record_batches, cut_records

DECLARATIONS = (
    "<!ENTITY t 'text &#38;amp; more'>",
    "<!ENTITY m '<j c=\"1\">in an <i>entity</i></j>'>",
    "<!ENTITY n '&t;, &t;'>",
    "<!ATTLIST i k CDATA 'v'>",
    "<!ATTLIST i w NMTOKENS #IMPLIED>",
    "<!ATTLIST i id ID #IMPLIED>",
    "<!ATTLIST j c NMTOKEN '7' d CDATA '&#60;x'>",
    "<!ATTLIST p:j n ID #IMPLIED>",
    "<!ATTLIST \u00fcber k CDATA 'v'>",
    "<!ATTLIST other k CDATA 'v' id ID #IMPLIED>",
)
"""Declarations in the order in which they may refer to each other."""

PIECES = (
    "words",
    "a &amp; b",
    "&t;",
    "&m;",
    "&n;",
    "<j/>",
    "<j c=' 8 '>in</j>",
    "<j d = '&lt;'\n/>",
    "<p:j xmlns:p='urn:u' n=' x{0} '/>",
    "<\u00fcber/>",
    "<jj c=' 8  9 '/>",
    "<!-- <j/> &t; -->",
    "<![CDATA[</i> &t; <i>]]>",
    "<?p </i> &t;?>",
    "<i>inner</i>",
    "<x a='&t;' b=\"it's &t;\">&t;</x>",
    "\u4e00" * 20,
)

ATTRIBUTES = ("", " k='w'", " w=' a  b '", ' w="c"', " id='y{0}'", ' a="&lt;"', "\n b='2'", " id=' z{0}' k='&#32;'")


def _record(randomness: random.Random, number: int) -> str:
    attributes = randomness.choice(ATTRIBUTES).format(number)
    content = "".join(randomness.sample(PIECES, randomness.randrange(4)))
    written = f"<i{attributes}>{content.replace('{0}', str(number))}</i>"
    return randomness.choice((written, written, f"<i{attributes}/>", f"<g>{written}</g>"))


def _document(randomness: random.Random) -> str:
    declared = [one for one in DECLARATIONS if randomness.random() < 0.4]
    body = "\n".join(_record(randomness, number) for number in range(randomness.randrange(1, 40)))
    for name in "tmn":
        known = any(f"<!ENTITY {name} " in one for one in declared)
        needed = "<!ENTITY n " in "".join(declared) and name == "t"
        if not known and needed:
            declared.insert(0, DECLARATIONS[0])
        elif not known:
            body = body.replace(f"&{name};", "none")
    return f"<!DOCTYPE r [{''.join(declared)}]><r>{body}</r>"


def _expected(document: bytes) -> list[bytes]:
    """Returns the outermost elements of the name, with all that is declared in place."""
    parser = etree.XMLParser(attribute_defaults=True, resolve_entities=True)
    root = etree.fromstring(document, parser)
    return [_canonical(one) for one in root.iter("i") if all(around.tag != "i" for around in one.iterancestors())]


def _canonical(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", with_comments=True)


def _of_message(message: bytes) -> bytes:
    return _canonical(etree.fromstring(message, etree.XMLParser(attribute_defaults=True)))


def test_records_are_what_the_document_declares_them_to_be() -> None:
    randomness = random.Random(printed_seed())
    subscriptions = SubscriptionSet({"k": "/*[@k = 'v']", "c": "//j[@c = '7']", "t": "//text()[contains(., '&')]"})
    for _ in range(60):
        document = _document(randomness).encode()
        expected = _expected(document)
        size = randomness.choice((1 << 20, 64, 7))
        batches = cut_record_batches(io.BytesIO(document), "i", chunk_bytes=size)
        records = [record.xml for batch in batches for record in batch]
        assert [_of_message(record) for record in records] == expected, document.decode()
        found = {one.number: one.keys for one in subscriptions.match_records(io.BytesIO(document), "i")}
        matched = [subscriptions.match(record).keys for record in expected]
        assert [found.get(number, []) for number in range(1, len(expected) + 1)] == matched, document.decode()


@pytest.mark.parametrize("entities", [3, 40])
def test_long_texts_of_entities_are_each_in_their_record(entities: int) -> None:
    """They may come to more than is kept from record to record."""
    declared = "".join(f"<!ENTITY e{number} '{f'{number:02}' * 25_000}'>" for number in range(entities))
    order = [number % entities for number in range(3 * entities)]
    body = "".join(f"<i>&e{number};</i>" for number in order)
    records = cut_records(io.BytesIO(f"<!DOCTYPE r [{declared}]><r>{body}</r>".encode()), "i")
    assert [record.xml for record in records] == [f"<i>{f'{number:02}' * 25_000}</i>".encode() for number in order]


def test_a_record_says_of_its_ids_only_what_it_has() -> None:
    names = "".join(f"<!ATTLIST n{number} key ID #IMPLIED>" for number in range(200))
    document = f"<!DOCTYPE r [{names}]><r><i><n7 key='a'/><n7/></i><i><n8/></i><i key='b'/><i>text</i></r>".encode()
    first, *others = (record.xml for record in cut_records(io.BytesIO(document), "i"))
    assert first == b"<!DOCTYPE x [<!ATTLIST n7 key ID #IMPLIED>]><i><n7 key='a'/><n7/></i>"
    assert others == [b"<i><n8/></i>", b"<i key='b'/>", b"<i>text</i>"]


def test_declarations_of_one_document_do_not_hold_for_the_next() -> None:
    documents = [
        "<!DOCTYPE r [<!ENTITY e 'one'><!ATTLIST i k CDATA '1'>]><r><i>&e;</i><i>&e;</i></r>",
        "<!DOCTYPE r [<!ENTITY e 'two'><!ATTLIST i k CDATA '2'>]><r><i>&e;</i><i>&e;</i></r>",
        "<r><i>three</i></r>",
    ]
    subscriptions = SubscriptionSet(
        {"1": "/i[@k = '1' and . = 'one']", "2": "/i[@k = '2' and . = 'two']", "3": "/i[not(@k)]"}
    )
    found = subscriptions.match_records(
        io.BytesIO("\n".join(documents).encode()), ReadOptions(record="i", documents=True)
    )
    assert [one.keys for one in found] == [["1"], ["1"], ["2"], ["2"], ["3"]]


@pytest.mark.parametrize("fault", ["<i><b></i>", "<i a=1/>", "<i>&no;</i>", "<i><b>&no;</i>", "<i>\x01</i>"])
def test_a_faulty_record_costs_no_other_whatever_is_declared(fault: str) -> None:
    subscriptions = SubscriptionSet({"i": "/i"})
    for declared in ("", "<!DOCTYPE r [<!ENTITY e 'x'><!ATTLIST i k CDATA 'v'><!ATTLIST b id ID #IMPLIED>]>"):
        document = f"{declared}<r><i>1</i>{fault}<i>2</i></r>"
        found = [
            (one.number, one.keys, one.error is None)
            for one in subscriptions.match_records(io.BytesIO(document.encode()), "i")
        ]
        assert found == [(1, ["i"], True), (2, [], False), (3, ["i"], True)]
