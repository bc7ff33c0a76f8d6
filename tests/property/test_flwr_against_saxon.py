"""For-Where-Return results against those of Saxon, an XQuery processor, on random messages and queries."""

from __future__ import annotations

import os
from functools import cache
from random import Random

import pytest

from tests.canonical import expanded
from tests.flwr_generator import NAMESPACES, LaterQueryMaker, QueryMaker, message
from tests.property.saxon_oracle import Saxon, saxonche
from twigcast import SubscriptionSet
from twigcast.errors import QueryWarning

QUERIES = {"thorough": 20_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 250)
QUERIES_PER_MESSAGE = 5

_PROLOG = "".join(f'declare namespace {prefix} = "{uri}"; ' for prefix, uri in NAMESPACES.items())
_PROLOG += (
    'declare namespace output = "http://www.w3.org/2010/xslt-xquery-serialization"; '
    'declare option output:omit-xml-declaration "yes"; declare variable $doc := /; '
)


pytestmark = pytest.mark.filterwarnings(f"ignore::{QueryWarning.__module__}.{QueryWarning.__name__}")


class FlwrSaxon(Saxon):
    """The oracle."""

    def run(self, xml: str, query: str) -> str | None:
        """What a query returns; ``None`` where an attribute is in a wrong place, or a name is none: what may fail."""
        runner = self.processor.new_xquery_processor()
        runner.set_context(xdm_item=self.processor.parse_xml(xml_text=xml))
        runner.set_query_content(f"{_PROLOG}<sequence>{{ {query} }}</sequence>")
        try:
            answer = runner.run_query_to_string()
        except saxonche.PySaxonApiError as error:
            if any(code in str(error) for code in ("XQTY0024", "XQDY0025", "XQDY0074")):
                return None
            raise
        # The element around the answer declares no namespaces of its own.
        return str(answer).strip().removeprefix("<sequence>").removesuffix("</sequence>").replace("<sequence/>", "")


@cache
def _oracle() -> FlwrSaxon:
    """The oracle of this process: Saxon ends the process if another thread frees its processor, as a collector may."""
    return FlwrSaxon()


@pytest.fixture
def saxon() -> FlwrSaxon:
    return _oracle()


@pytest.mark.parametrize("maker", [QueryMaker, LaterQueryMaker])
def test_results_are_those_of_saxon(saxon: FlwrSaxon, maker: type[QueryMaker]) -> None:
    first = int(os.environ.get("FLWR_SEED", "1"))
    delivered = 0
    for seed in range(first, first + QUERIES // QUERIES_PER_MESSAGE):
        random = Random(seed)
        xml = message(random)
        for number in range(QUERIES_PER_MESSAGE):
            query = maker(random).query()
            reported = f"FLWR_SEED={seed}, query {number}: {query.text}\non {xml}"
            subscriptions = SubscriptionSet(namespaces=NAMESPACES)
            subscriptions.add("q", query.text)
            deliveries = subscriptions.deliver(xml.encode())
            expected = saxon.run(xml, query.text)
            if expected is None:
                assert deliveries.undecided, reported
                continue
            assert not deliveries.undecided, f"{reported}\n{deliveries.undecided}"
            passing = saxon.run(xml, f"count({query.bindings})")
            if passing == "0":
                assert not deliveries, reported
                continue
            assert [delivery.key for delivery in deliveries] == ["q"], reported
            assert expanded(deliveries[0].payload) == expanded(expected), reported
            delivered += 1
    assert delivered > QUERIES // 5
