"""The same hundred For-Where-Return queries by other means: Saxon, compiled XSLT and XPath with results put together.

All get the bytes of a message and give bytes. How many queries have a result is compared before anything is timed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.measure import Row, parse_with_expat, side_by_side
from benchmarks.transformation import BINDING_DEPTH, PREDICATES, messages, parts
from twigcast import SubscriptionSet
from twigcast.lab.workload import FlwrQuery

QUERIES = 100
MESSAGES = 20

Answer = Callable[[bytes], list[bytes]]
"""The results of a message: one for each query that has any."""


def feeds() -> list[str]:
    """Those with most results, and those with fewest: with these it matters most what it costs to ask each query."""
    return [*BINDING_DEPTH, *(f"{feed}-full-{PREDICATES}" for feed in BINDING_DEPTH)]


def measure(feed: str) -> list[Row]:
    """All peers beside Twigcast, on one feed."""
    queries, bodies = parts(feed, QUERIES), messages(feed)[:MESSAGES]
    answers = {"twigcast": _twigcast(queries), "lxml XPath, by hand": _xpath(queries), "lxml XSLT": _xslt(queries)}
    if importlib.util.find_spec("saxonche"):
        answers["Saxon XQuery, one by one"] = _saxon(queries)
    counted = {name: [len(answer(body)) for body in bodies] for name, answer in answers.items()}
    if len(set(map(tuple, counted.values()))) != 1:
        raise SystemExit(f"the peers disagree on {feed}: {counted}")

    def timed(answer: Answer) -> Callable[[], object]:
        return lambda: [answer(body) for body in bodies]

    expat, *times = side_by_side(3, lambda: parse_with_expat(bodies), *map(timed, answers.values()))
    return [
        {
            "feed": feed,
            "peer": name,
            "queries": QUERIES,
            "results": sum(counted[name]) / MESSAGES,
            "us": timing.median / MESSAGES * 1e6,
            "E": timing.median / expat.median,
        }
        for name, timing in zip(answers, times, strict=True)
    ]


def _twigcast(parts: list[FlwrQuery]) -> Answer:
    subscriptions = SubscriptionSet([(str(number), part.text) for number, part in enumerate(parts)])
    return lambda body: [delivery.payload for delivery in subscriptions.deliver(body)]


def _bindings(part: FlwrQuery) -> str:
    conditions = " and ".join(f".{path} = {value}" for path, value in part.where)
    return f"{part.binding}[{conditions}]"


def _xpath(parts: list[FlwrQuery]) -> Answer:
    etree: Any = importlib.import_module("lxml.etree")
    compiled = [(etree.XPath(_bindings(part)), [etree.XPath(f".{path}") for path in part.returns]) for part in parts]

    def answer(body: bytes) -> list[bytes]:
        root = etree.fromstring(body)
        results = []
        for bindings, returns in compiled:
            matching = [
                b"".join(etree.tostring(node, with_tail=False) for path in returns for node in path(binding))
                for binding in bindings(root)
            ]
            if matching:
                results.append(b"".join(b"<result>" + result + b"</result>" for result in matching))
        return results

    return answer


def _xslt(parts: list[FlwrQuery]) -> Answer:
    etree: Any = importlib.import_module("lxml.etree")
    escape: Callable[[str], str] = importlib.import_module("xml.sax.saxutils").quoteattr
    compiled = []
    for part in parts:
        copies = "".join(f"<xsl:copy-of select={escape('.' + path)}/>" for path in part.returns)
        sheet = (
            '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">'
            '<xsl:output omit-xml-declaration="yes"/><xsl:template match="/">'
            f"<xsl:for-each select={escape(_bindings(part))}><result>{copies}</result></xsl:for-each>"
            "</xsl:template></xsl:stylesheet>"
        )
        compiled.append(etree.XSLT(etree.fromstring(sheet)))

    def answer(body: bytes) -> list[bytes]:
        document = etree.fromstring(body)
        return [result for result in (bytes(transform(document)) for transform in compiled) if result]

    return answer


def _saxon(parts: list[FlwrQuery]) -> Answer:
    saxonche: Any = importlib.import_module("saxonche")
    processor = saxonche.PySaxonProcessor(license=False)

    def answer(body: bytes) -> list[bytes]:
        document = processor.parse_xml(xml_text=body.decode())
        results = []
        for part in parts:
            runner = processor.new_xquery_processor()
            runner.set_context(xdm_item=document)
            runner.set_property("!omit-xml-declaration", "yes")
            runner.set_query_content(part.text)
            result = runner.run_query_to_string()
            if result:
                results.append(str(result).encode())
        return results

    return answer
