"""Queries that no document of a DTD matches: cases with their reasons, and random DTDs whose documents lxml judges."""

from __future__ import annotations

import random

import pytest
from lxml import etree

from tests.flwr_generator import NAMESPACES as LOOP_NAMESPACES
from tests.flwr_generator import QueryMaker
from tests.seeds import printed_seed
from tests.strategies import ATTRIBUTES, NAMES, NAMESPACES, Generator
from twigcast import SubscriptionSet
from twigcast.lab.workload.documents import documents
from twigcast.lab.workload.errors import WorkloadError
from twigcast.query import parse
from twigcast.schema import Satisfiability, Schema, read_dtd

ALERTS = read_dtd(
    b"""
    <!ELEMENT alert (identifier, sender?, info*)>
    <!ATTLIST alert status (Actual | Test) #REQUIRED version CDATA #FIXED "1.2">
    <!ELEMENT identifier (#PCDATA)>
    <!ELEMENT sender (#PCDATA)>
    <!ELEMENT info (event, area+, web?)>
    <!ATTLIST info xml:lang CDATA #IMPLIED level (1 | 2) "1">
    <!ELEMENT event (#PCDATA)>
    <!ELEMENT area (areaDesc, geocode*)>
    <!ELEMENT areaDesc (#PCDATA)>
    <!ELEMENT geocode (#PCDATA)>
    <!ATTLIST geocode name CDATA #IMPLIED>
    <!ELEMENT web EMPTY>
    """
)

NEVER = {
    "//evnt": "there is no element evnt; did you mean event?",
    "//info/geocode": "info has no child geocode (geocode is a child of area); it may have area, event or web",
    "/alert//web//event": "web has no descendant event (event is a child of info); it has no elements there",
    "//info[event = 'x' and severity = 'Extreme']": "there is no element severity",
    "//info[severity = 'a' or urgency = 'b']": "there is no element severity",
    "//info[contains(lower-case(severity), 'x')]": "there is no element severity",
    "//info[count(severity) > 0]": "there is no element severity",
    "//info[string-length(normalize-space(severity)) > 3]": "there is no element severity",
    "//info[some $x in area satisfies $x/areaDescription]": "there is no element areaDescription",
    "//alert[@status = 'Aktual']": "status of alert is never 'Aktual', but Actual or Test",
    "//alert[@version = '1.1']": "version of alert is never '1.1', but 1.2",
    "//info[@level = 3]": "level of info is never '3', but 1 or 2",
    "//info/@href": "info has no attribute href; there are level and xml:lang",
    "//info/@lang": "info has no attribute lang; there are level and xml:lang",
    "//web/@href": "web has no attribute href; it has no attributes",
    "//web/text()": "web has no child::text()",
    "//info/event[2]": "nothing there has so many children event",
    "//event/following-sibling::geocode": "event has no following-sibling geocode (geocode is a child of area)",
    "//geocode[ancestor::sender]": "geocode has no ancestor sender (sender is a child of alert); it may have",
    "//info intersect //evnt": "there is no element evnt; did you mean event?",
    "for $i in //inf return $i": "there is no element inf; did you mean info?",
    "for $i in //info where $i/sevrity = 'x' return <r>{ $i }</r>": "there is no element sevrity",
    "for $i in //info let $a := $i/areas where $a/geocode return <r/>": "there is no element areas; did you mean area?",
}

PERHAPS = (
    "/alert/info",
    "//info[event = 'x' or severity = 'y']",
    "//info[not(severity)]",
    "//info[count(severity) = 0]",
    "//info[severity = false()]",
    "//info[string(severity) = '']",
    "//alert[@status = ' Test ']",
    "//alert[@status != 'Aktual']",
    "//info[@level = 2.0]",
    "//info[@xml:lang = 'de']",
    "//area[@xml:lang = 'de']",
    "//area/geocode[7]",
    "//event/following-sibling::area",
    "//geocode[ancestor::alert]",
    "//info/text()",
    "//identifier/comment()",
    "/sender",
    "not(//evnt)",
    "count(//evnt) = 0",
    "for $i in //info return <r>{ $i/severity }</r>",
)


@pytest.mark.parametrize(("query", "reason"), NEVER.items())
def test_a_query_that_no_document_matches_has_a_reason(query: str, reason: str) -> None:
    assert (Satisfiability(ALERTS).why_never(parse(query)) or "none").startswith(reason)


@pytest.mark.parametrize("query", PERHAPS)
def test_a_query_that_a_document_may_match_has_none(query: str) -> None:
    assert Satisfiability(ALERTS).why_never(parse(query)) is None


def random_dtd(generator: random.Random) -> bytes:
    """Returns a DTD of few elements, recursive ones among them, whose content ends everywhere."""
    lines = []
    for name in NAMES:
        parts = [f"{generator.choice(NAMES)}{generator.choice(('?', '*'))}" for _ in range(generator.randrange(4))]
        mixed = " | ".join(sorted(set(generator.choices(NAMES, k=2))))
        joined = generator.choice((", ", " | ")).join(parts)
        content = generator.choice((f"({joined})" if parts else "EMPTY", f"(#PCDATA | {mixed})*", "(#PCDATA)", "EMPTY"))
        lines.append(f"<!ELEMENT {name} {content}>")
        for attribute in ATTRIBUTES:
            if generator.random() < 0.4:
                kind = generator.choice(("CDATA", "(a | b)", "(1 | 2)"))
                lines.append(f"<!ATTLIST {name} {attribute} {kind} {generator.choice(('#IMPLIED', '#REQUIRED'))}>")
    return "\n".join(lines).encode()


def made_documents(text: bytes, seed: int) -> tuple[Schema, list[bytes]]:
    """Returns a schema and valid documents with each of its elements as root."""
    made: list[bytes] = []
    for root in NAMES:
        try:
            made += documents(read_dtd(text, root=root), 6, seed, levels=4)
        except WorkloadError:
            continue
    return read_dtd(text), made


def test_what_never_matches_matches_no_document_that_was_made() -> None:
    generator = random.Random(printed_seed())
    found = matching_none = 0
    for _ in range(5):
        schema, made = made_documents(random_dtd(generator), generator.randrange(1 << 30))
        lint = Satisfiability(schema)
        trees = [etree.fromstring(document) for document in made]
        for _ in range(40):
            query = Generator(generator).query()
            reason = lint.why_never(parse(query, NAMESPACES))
            matches = [bool(tree.xpath(f"boolean({query})", namespaces=NAMESPACES)) for tree in trees]
            matching_none += not any(matches)
            if reason is not None:
                found += 1
                assert not any(matches), (query, reason, schema, made[matches.index(True)])
    # Most queries that nothing matches ask for names or places that the DTD does not have.
    assert found > matching_none / 4, (found, matching_none)


def test_a_query_that_never_returns_delivers_nothing_of_what_was_made() -> None:
    generator = random.Random(printed_seed())
    found = 0
    for _ in range(5):
        schema, made = made_documents(random_dtd(generator), generator.randrange(1 << 30))
        queries = [QueryMaker(generator).query().text for _ in range(20)]
        lint = Satisfiability(schema)
        reasons = {str(n): lint.why_never(parse(query, LOOP_NAMESPACES)) for n, query in enumerate(queries)}
        subscriptions = SubscriptionSet(namespaces=LOOP_NAMESPACES)
        subscriptions.add_many({str(number): query for number, query in enumerate(queries)})
        found += sum(reason is not None for reason in reasons.values())
        for document in made:
            for key in subscriptions.match(document):
                assert reasons[key] is None, (queries[int(key)], reasons[key], document)
    assert found > 0
