"""The table of XPath functions: its rows against libxml2, and against what the planner concludes from them."""

import math
import random
import warnings

import pytest
from lxml import etree

from tests.seeds import printed_seed
from twigcast._core import XPathFunction, truth_without_nodes
from twigcast.errors import QueryError
from twigcast.query import parse
from twigcast.query.functions import FUNCTIONS
from twigcast.subscriptions import SubscriptionSet

_OTHERS = ("''", "'r'", "2")
_ROWS = pytest.mark.parametrize("row", FUNCTIONS.values(), ids=FUNCTIONS.keys())

# libxml2 has no position outside predicates.
_ARGUMENTS = {name: row for name, row in FUNCTIONS.items() if not row.is_positional}
_OF_XPATH_1 = {name: row for name, row in _ARGUMENTS.items() if row.is_of_xpath_1}
_ROWS_OF_ARGUMENTS = pytest.mark.parametrize("row", _OF_XPATH_1.values(), ids=_OF_XPATH_1.keys())


_CONSTANTS = {
    **dict.fromkeys(("xs:double", "xs:decimal", "xs:integer"), "'1'"),
    "xs:dateTime": "'2026-11-30T12:00:00'",
    "xs:date": "'2026-11-30'",
    "xs:time": "'12:00:00'",
    "xs:dayTimeDuration": "'P1D'",
    "xs:yearMonthDuration": "'P1M'",
    "xs:QName": "'r'",
    "twig:version": "'1'",
    **dict.fromkeys(("geo:point", "geo:circle", "geo:box"), "1"),
    "geo:polygon": "'1,1 1,9 9,9 9,1 1,1'",
}
"""The first arguments of the functions that make constants."""


_FURTHER = {
    "resolve-QName": ["/*"],
    "twig:words": ["'case'", "'en'"],
    "twig:full-text": ["'\"a\"'", "'en'"],
    "time:within": ["'00:00-24:00'", "'UTC'"],
    **{
        key: ["geo:point(1, 2)"] for key in (f"geo:{name}" for name in ("intersects", "disjoint", "within", "contains"))
    },
    "geo:distance": ["geo:point(1, 2)"],
    "geo:point": ["2"],
    "geo:circle": ["2", "3"],
    "geo:box": ["2", "3", "4"],
    "geo:polygon": ["'2,3 2,4 3,4 2,3'", "'5,6 5,7 6,7 5,6'", "'2,6 2,7 3,7 2,6'", "'6,2 6,3 7,3 6,2'"],
}
"""The second arguments, and those after them, of functions that do not take every text."""


def _arguments(row: XPathFunction, first: str) -> list[str]:
    further = _FURTHER.get(row.name, ["'x'"])
    return [_CONSTANTS.get(row.name, first), *further, *["'i'", "'i'", "'a'"][len(further) - 1 :]]


def _call(row: XPathFunction, arguments: list[str]) -> str:
    return f"{row.name}({', '.join(arguments)})"


def _without_nodes(row: XPathFunction, other: str) -> str:
    """Returns a call whose first argument, if it takes one, selects nothing."""
    count = 0 if row.arguments_max == 0 else max(row.arguments_min, 1)
    return _call(row, ["/r/none", other, other][:count])


def _truth(value: object) -> bool:
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


@_ROWS_OF_ARGUMENTS
def test_what_is_true_without_nodes_is_what_libxml2_answers(row: XPathFunction) -> None:
    """Both directions: a stated truth is the answer, and an unknown one is that of each call."""
    calls = [_without_nodes(row, other) for other in _OTHERS]
    answers = [_truth(etree.fromstring("<r/>").xpath(call)) for call in calls]
    if row.without_nodes is not None:
        assert answers == [_truth(row.without_nodes)] * len(calls)
        # Of what the other arguments are, nothing is known.
        assert truth_without_nodes(_without_nodes(row, "string(.)"), {}) is _truth(row.without_nodes)
    # A language or an identifier is not known without a message.
    expected = [None] * len(calls) if row.looks_elsewhere else answers
    assert [truth_without_nodes(call, {}) for call in calls] == expected


@pytest.mark.parametrize("name", ["position", "last"])
def test_positions_and_sizes_are_true(name: str) -> None:
    """They are 1 at least, and do not depend on nodes."""
    assert FUNCTIONS[name].is_positional
    assert truth_without_nodes(f"{name}()", {}) is True


@_ROWS
def test_numbers_of_arguments_are_those_that_the_parser_accepts(row: XPathFunction) -> None:
    """One argument less or more is refused, and the error says how to call the function."""
    arguments = _arguments(row, "/r")
    most = len(arguments) if row.arguments_max is None else row.arguments_max
    for count in range(len(arguments) + 1):
        call = _call(row, arguments[:count])
        if row.arguments_min <= count <= most:
            parse(call)
        else:
            with pytest.raises(QueryError) as caught:
                parse(call)
            assert row.usage in str(caught.value)


@_ROWS_OF_ARGUMENTS
def test_types_of_results_are_those_of_libxml2(row: XPathFunction) -> None:
    """The type of a result is known without evaluating."""
    types = {"node-set": list, "boolean": bool, "number": float, "string": str}
    value = etree.fromstring("<r/>").xpath(_without_nodes(row, "'x'"))
    assert isinstance(value, types[row.result_type])


@_ROWS
def test_only_what_takes_a_node_set_refuses_a_string(row: XPathFunction) -> None:
    """No other type converts to a node-set."""
    if row.arguments_max == 0:
        return
    call = _call(row, _arguments(row, "'r'")[: max(row.arguments_min, 1)])
    if row.takes_node_set:
        with pytest.raises(QueryError):
            parse(call)
    else:
        parse(call)


def test_a_path_of_no_step_is_there_without_nodes() -> None:
    """The context node and the document node are always there; what hangs on them is not."""
    truths = {
        ".": True,
        "/": True,
        ".//a": False,
        "//a | .": True,
        "//a or 1": True,
        "count(//a) + 1": True,
        "-count(//a)": False,
        "not(//a)": True,
        "//a = ''": False,
        "//a = false()": True,
        "string(.)": None,
        "//a[true()]": False,
        "contains(//a, string(.))": None,
    }
    assert {text: truth_without_nodes(text, {}) for text in truths} == truths


def test_translate_is_as_in_libxml2() -> None:
    """With letters of ASCII, for which there is a table, and with others; repeated, and of unequal numbers."""
    seed = printed_seed()
    chance = random.Random(seed)

    def text(most: int) -> str:
        return "".join(chance.choices(chance.choice(["abcAB", "abc\u00e9\u20ac", "~a\x7f "]), k=chance.randrange(most)))

    for _ in range(300):
        value, old, new = text(12), text(6), text(6)
        xml = f"<a>{value}</a>".encode()
        expected = etree.fromstring(xml).xpath(f"translate(., '{old}', '{new}')")
        subscriptions = SubscriptionSet()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subscriptions.add("k", f"/a[translate(., '{old}', '{new}') = '{expected}']")
        assert "k" in subscriptions.match(xml), (value, old, new, expected)
