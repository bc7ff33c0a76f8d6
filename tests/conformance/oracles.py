"""Answers that do not come from the product: XPath 1.0 by libxml2 (lxml), XQuery by Saxon."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from lxml import etree

from tests.conformance.locations import TreeLocations

_PREFIX: Final = "oracle"
_OWN: Final = "urn:example:oracle"
_ANY_NAMESPACE: Final = re.compile(r"(@|::|/|^|[\[( ])\*:([\w.-]+)")


def _text(value: object) -> str:
    """string() of what libxml2 passes to a function."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, etree._Element):
        return str(value.xpath("string()"))
    return str(value)


def _distance(value: object) -> float:
    try:
        return abs(float(_text(value)))
    except ValueError:
        return math.nan


def _join(nodes: object, separator: object = "") -> str:
    if not isinstance(nodes, list):
        raise TypeError("string-join() takes nodes")
    return _text(separator).join(_text([node]) for node in nodes)


def _matches(text: object, pattern: object, flags: object = "") -> bool:
    """By Python's expressions, which are those of XPath 3.1 where the cases use them."""
    if isinstance(pattern, list) or "m" in str(flags):
        raise TypeError("patterns are literals")
    try:
        pattern = re.escape(str(pattern)) if "q" in str(flags) else str(pattern)
        return re.search(pattern, _text(text), re.IGNORECASE if "i" in str(flags) else 0) is not None
    except re.error as error:
        raise TypeError(str(error)) from error


def _refusing(function: Callable[..., object]) -> Callable[..., object]:
    """A function that refuses wrong arguments as libxml2 does."""

    def call(_: object, *arguments: object) -> object:
        try:
            return function(*arguments)
        except TypeError as error:
            raise etree.XPathEvalError(str(error)) from error

    return call


_OF_XPATH_3: Final = {
    (None, "lower-case"): _refusing(lambda text: _text(text).lower()),
    (None, "upper-case"): _refusing(lambda text: _text(text).upper()),
    (None, "ends-with"): _refusing(lambda text, suffix: _text(text).endswith(_text(suffix))),
    (None, "string-join"): _refusing(_join),
    (None, "abs"): _refusing(_distance),
    (None, "matches"): _refusing(_matches),
}
"""Functions of XPath 3.1, which libxml2 has not."""


@dataclass(frozen=True, slots=True)
class XPathAnswer:
    """What libxml2 says of a query."""

    matches: bool
    nodes: tuple[str, ...] | None
    """The selected nodes as locations; ``None`` where there are others than have one, or the value is no node-set."""

    count: int | None
    """How many nodes are selected; ``None`` where the value is no node-set."""


@lru_cache(maxsize=64)
def _tree(message: bytes) -> TreeLocations:
    return TreeLocations(message)


def xpath(message: bytes, query: str, namespaces: Mapping[str, str], *, locate: bool = True) -> XPathAnswer:
    """The answer of libxml2; nodes have locations if the message is plain, and if these are asked for.

    Raises:
        lxml.etree.XMLSyntaxError: It refuses the message.
        lxml.etree.XPathError: It refuses the query.
    """
    tree = _tree(message)
    # XPath 1.0 cannot say `*:name`.
    text = _ANY_NAMESPACE.sub(r"\1*[local-name() = '\2']", query)
    prefixes = dict(namespaces)
    seen: list[object] = []

    def see(_: object, found: object) -> bool:
        seen.append(found)
        return True

    prefixes[_PREFIX] = _OWN
    extensions: dict[Any, Any] = {(_OWN, "see"): see, **_OF_XPATH_3}

    def value(expression: str) -> object:
        # lxml evaluates at the root element; a predicate of the document node is evaluated at the document node.
        tree.tree.xpath(f"(/)[{_PREFIX}:see({expression})]", namespaces=prefixes, extensions=extensions)
        return seen.pop()

    matches = bool(value(f"boolean({text})"))
    found = value(text)
    if not isinstance(found, list):
        return XPathAnswer(matches, None, None)
    count = int(value(f"count({text})"))  # type: ignore[call-overload]
    if not locate or any(isinstance(node, tuple) for node in found):
        return XPathAnswer(matches, None, count)
    nodes = tree.locations(node for node in found if not isinstance(node, etree._ElementTree))
    if count == len(nodes) + 1 and value(f"boolean(({text})[not(..)])"):
        # The document node is no object of lxml.
        nodes = ["/", *nodes]
    assert len(nodes) == count, f"{query}: {nodes}, but {count} nodes"
    return XPathAnswer(matches, tuple(nodes), count)


class SaxonOracle:
    """XQuery by Saxon, in this process.

    Saxon ends the process if another thread frees its processor, as the garbage collector may do. So there is one
    oracle, :func:`saxon_oracle`, which lives as long as the process.
    """

    def __init__(self) -> None:
        # It has no types.
        saxonche = importlib.import_module("saxonche")
        self._errors = saxonche.PySaxonApiError
        self._processor = saxonche.PySaxonProcessor(license=False)
        self._documents: dict[bytes, object] = {}

    def run(self, message: bytes, query: str, namespaces: Mapping[str, str]) -> str:
        """The result of a query as markup; atomic values next to each other are separated by a space.

        Raises:
            ValueError: Saxon refuses the query, or it fails on the message.
        """
        runner = self._processor.new_xquery_processor()
        if message not in self._documents:
            self._documents[message] = self._processor.parse_xml(xml_text=message.decode())
        runner.set_context(xdm_item=self._documents[message])
        runner.set_query_content(f"{_prolog(namespaces)}<sequence>{{ {query} }}</sequence>")
        try:
            answer = runner.run_query_to_string()
        except self._errors as error:
            raise ValueError(str(error)) from error
        # The element around the answer declares no namespaces of its own.
        text = str(answer).strip()
        return re.sub(r"^<sequence[^>]*?(/>|>)", "", text).removesuffix("</sequence>")


@cache
def saxon_oracle() -> SaxonOracle:
    """The oracle of this process."""
    return SaxonOracle()


def _prolog(namespaces: Mapping[str, str]) -> str:
    text = "".join(
        f'declare namespace {prefix} = "{uri}"; ' if prefix else f'declare default element namespace "{uri}"; '
        for prefix, uri in namespaces.items()
    )
    return (
        f"{text}declare boundary-space strip; declare namespace output = "
        '"http://www.w3.org/2010/xslt-xquery-serialization"; declare option output:omit-xml-declaration "yes"; '
        "declare variable $doc := /; declare variable $msg := /; "
    )


def passing(query: str) -> str | None:
    """A query that counts how often the bindings of a For-Where-Return query pass; ``None`` if that is not simple."""
    head, separator, rest = query.partition(" return ")
    simple = head.lstrip().startswith(("for $", "let $")) and "(:" not in query and "<" not in re.sub("<[= ]", "", head)
    if not separator or not simple or (re.search(r"\bfor \$", rest) and not re.match(r"\s*[<(]", rest)):
        return None
    return f"count(({head} return 1))"
