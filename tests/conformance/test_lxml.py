"""The oracle of XPath 1.0: libxml2, through lxml, gives the answers that the corpus expects."""

from __future__ import annotations

import pytest
from lxml import etree

from tests.conformance import oracles
from tests.conformance.answers import Check
from tests.conformance.cases import Case, CaseQuery, all_cases, cases_of, files


def reason(case: Case) -> str | None:
    if case.error is not None and case.error.code != "message-malformed":
        return "the limits are the product's own"
    if case.error is None and all(query.is_flwr or (query.error and query.error.limit) for query in case.queries):
        return "Saxon is the oracle of For-Where-Return queries, and limits are the product's own"
    return None


@pytest.mark.parametrize("file", files())
def test_libxml2_says_the_same(file: str) -> None:
    run = Check("lxml")
    for case in run.select(cases_of(file), reason):
        if case.error is not None:
            run.add(case, [] if refuses(case.message) else ["libxml2 takes the message"])
            continue
        for query in case.queries:
            if not query.is_flwr and query.key not in case.undecided:
                run.add(case, judged(case, query))
    run.finish()


def test_departures_are_still_there() -> None:
    """Where libxml2 is skipped, it departs from what is expected: once it is corrected, the skip goes."""
    corrected = [case.id for case in all_cases() if "lxml" in case.skip and not departs(case)]
    assert not corrected


def departs(case: Case) -> bool:
    if case.error is not None:
        return not refuses(case.message)
    try:
        return any(judged(case, query) for query in case.queries)
    except etree.LxmlError:
        return True


def refuses(message: bytes) -> bool:
    try:
        etree.fromstring(message, etree.XMLParser(huge_tree=True, no_network=True))
    except etree.XMLSyntaxError:
        return True
    return False


def judged(case: Case, query: CaseQuery) -> list[str]:
    namespaces = {prefix: uri for prefix, uri in query.namespaces.items() if prefix}
    if query.error is not None:
        if query.error.code == "subscription-duplicate-key":
            return []
        try:
            oracles.xpath(case.message, query.query, namespaces, locate=False)
        except (etree.XPathError, ValueError):
            return []
        return [f"libxml2 takes {query.query!r}"]
    assert case.matches is not None
    found = oracles.xpath(case.message, query.xpath, namespaces, locate=query.key in case.nodes)
    faults = []
    if found.matches != (query.key in case.matches):
        faults.append(f"libxml2 says {found.matches} to {query.xpath!r}")
    if query.key in case.nodes and found.nodes != case.nodes[query.key]:
        faults.append(f"libxml2 selects {found.nodes}, expected {case.nodes[query.key]}")
    if query.key in case.counts and found.count != case.counts[query.key]:
        faults.append(f"libxml2 selects {found.count} nodes, expected {case.counts[query.key]}")
    return faults
