"""Dates, numbers with exponents, versions and names: what surrounds their comparisons, which Saxon judges elsewhere."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from twigcast import SubscriptionSet
from twigcast.errors import InvalidContext, QueryError, QueryWarning
from twigcast.explanation import explain
from twigcast.query_check import check


def results(query: str, message: str) -> str:
    """What a For-Where-Return query makes of a message."""
    delivered = list(SubscriptionSet([("q", query)]).deliver(message))
    return delivered[0].payload.decode() if delivered else ""


def warnings_of(query: str, **options: str) -> list[str]:
    """What is warned of when a query is added."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SubscriptionSet(**options).add("q", query)  # type: ignore[arg-type]
    assert all(warning.category is QueryWarning for warning in caught)
    return [str(warning.message) for warning in caught]


# --- numbers with exponents -------------------------------------------------------------------------------------------

READ = [
    ("//v[@n < 1]", "1e-3", True),
    ("//v[@n >= '1000']", "1E3", True),
    ("//v[@n = 1000]", "+1e3", True),
    ("//v[@n != 1000]", "none", False),
    ("//v[@n + 1 = 1001]", "1e3", True),
    ("//v[-@n = -1000]", "1e3", True),
    ("//v[number(@n) = 1000]", "1e3", True),
    ("//v[floor(@n) = 1]", "1.5e0", True),
    ("//v[@n > count(//v)]", "2e0", True),
    ("//v[string(@n) * 2 = 2000]", "1e3", True),
    ("//v[@n = 'INF']", "INF", True),
    ("//v[@n = ('x', 1000)]", "1e3", True),
    ("for $v in //v where $v/@n > 999 return $v", "1e3", True),
]


@pytest.mark.parametrize(("query", "value", "holds"), READ)
def test_a_set_reads_numbers_with_exponents_where_it_says_so(query: str, value: str, holds: bool) -> None:
    message = f"<r><v n='{value}'/></r>"
    for subscriptions in (SubscriptionSet(numbers="xs:double"), SubscriptionSet(dialect="doubles")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subscriptions.add("q", query)
        assert bool(subscriptions.match(message)) is holds


def test_numbers_stay_those_of_xpath_1_where_nobody_says_so() -> None:
    subscriptions = SubscriptionSet([("q", "//v[@n = 1000]")])
    with pytest.warns(QueryWarning, match="'1e3' at /v/@n"):
        assert not subscriptions.match("<v n='1e3'/>")
    assert subscriptions.match("<v n=' 1000 '/>")


def test_each_subscription_has_its_own_numbers(tmp_path: Path) -> None:
    """The same text under two dialects is two queries, in a snapshot too."""
    subscriptions = SubscriptionSet()
    records = [{"key": dialect, "query": "//v[@n = 1000]", "dialect": dialect} for dialect in ("xpath", "doubles")]
    subscriptions.add_many(records).raise_if_refused()
    subscriptions.save(tmp_path / "set")
    for found in (subscriptions, SubscriptionSet.load(tmp_path / "set")):
        with pytest.warns(QueryWarning, match="'1e3' at /v/@n"):
            assert found.match("<v n='1e3'/>").keys == ["doubles"]
        assert sorted(found.match("<v n='1000'/>").keys) == ["doubles", "xpath"]


@pytest.mark.parametrize(("call", "value"), [("sum", 1002), ("min", 2), ("max", 1000), ("avg", 501)])
def test_functions_of_several_numbers_read_exponents(call: str, value: int) -> None:
    subscriptions = SubscriptionSet([("q", f"{call}(//v) = {value}")], numbers="xs:double")
    assert subscriptions.match("<m><v>1e3</v><v>2</v></m>").keys == ["q"]
    assert subscriptions.match("<m><v>1e3</v><v>x</v></m>").keys == []


@pytest.mark.filterwarnings("ignore:.*read as infinity")
@pytest.mark.parametrize(
    ("number", "holds"),
    [("1e24", True), ("5.98E24", False), ("1e+3", True), ("-1e3", True), ("1e-3", True), ("1e400", False)],
)
def test_a_number_of_a_query_may_have_an_exponent(number: str, holds: bool) -> None:
    planet = "<planet mass='5.97e24'/>"
    for query in (
        f"//planet[@mass > {number}]",
        f"//planet[{number} < @mass]",
        f"//planet[@mass = (1, {number}, 5.97e24)]",
    ):
        expected = True if "(1" in query else holds
        subscriptions = SubscriptionSet([("q", query), ("w", query.replace(number, f"xs:double('{number}')"))])
        assert subscriptions.match(planet).keys == (["q", "w"] if expected else []), query


def test_the_dialect_xquery_has_one_meaning_of_numbers() -> None:
    pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")
    pairs = {
        "//v[@n < 1]": "//v[@n < 1 and deep-equal(., .)]",
        "sum(//v/@n) < 1": "sum(//v/@n) < 1 and deep-equal(/m, /m)",
        "//v[@n < @k]": "//v[@n < @k and deep-equal(., .)]",
        "//v[@n >= '1']": "//v[@n >= '1' and deep-equal(., .)]",
        "//v[number(@n) * 2 < 1]": "//v[number(@n) * 2 < 1 and deep-equal(., .)]",
    }
    for message in ("<m><v n='1e-3' k='2'/></m>", "<m><v n='10' k='9'/></m>", "<m><v n='+2' k='1e1'/></m>", "<m/>"):
        for one, other in pairs.items():
            found = SubscriptionSet([("one", one), ("other", other)], dialect="xquery").match(message)
            assert not found.undecided
            assert len(found.keys) in (0, 2), f"{one} on {message}: {found.keys}"


def test_what_cannot_read_exponents_is_refused() -> None:
    with pytest.raises(InvalidContext, match="numbers must be 'xs:double' or None"):
        SubscriptionSet(numbers="xs:float")  # type: ignore[arg-type]
    with pytest.raises(InvalidContext, match="in 'xquery' write"):
        SubscriptionSet(dialect="xquery", numbers="xs:double")


# --- warnings ---------------------------------------------------------------------------------------------------------

NOTED = [
    ("//a[@t >= '2024']", 8, "compared as a number"),
    ("//a['2024' < @t]", 12, "compared as a number"),
    ("//a[@t >= '2024-01-01']", 8, "is no number"),
    ("//a[@id = 12345678901234567891]", 11, "more digits than a number keeps"),
    ("//a[@id = 9007199254740993]", 11, "more digits than a number keeps"),
    ("//a[@x < 0.12345678901234567891]", 10, "more digits than a number keeps"),
    ("for $m in //m return <x>{ $m/f/@n }</x>", 25, "an element has only one of a name"),
    ("for $m in //m return <x>{ $m/b, $m/f/@n }</x>", 25, "an element has only one of a name"),
    ("for $m in //m return <x>{ if ($m/b) then $m/f/@n else $m/@n }</x>", 25, "an element has only one of a name"),
    ("for $m in //m return <x>{ for $f in $m/f return $f/@n }</x>", 25, "an element has only one of a name"),
    ("for $m in //m let $n := $m/f/@n return <x>{ $n }</x>", 43, "an element has only one of a name"),
    ("for $m in //m return element x { $m/f/@n }", 32, "an element has only one of a name"),
    ("for $m in //m return element { name($m) } { 1, $m/f/@n }", 43, "an element has only one of a name"),
    ("let $t := //a return $t/@t > '2024-01-01'", 28, "is no number"),
    ("if (//a) then //a/@t > '2024-01-01' else false()", 22, "is no number"),
    ("some $a in //a satisfies $a/@t > '2024-01-01'", 32, "is no number"),
    ("//a[@x > 1e400]", 10, "infinity, or as 0"),
    ("//a[@x = 1e-400]", 10, "infinity, or as 0"),
    ("//a[@t >= 2024-01-31]", 11, "xs:date('2026-11-30')"),
    ("//a[@a = 'x' or 'y']", 14, "true or false of all messages"),
    ("//a[b or 1]", 7, "true or false of all messages"),
    ("//a['x']", 4, "true or false of all messages"),
    ("//a[lower-case(@k) = 'Storm']", 20, "the case of the function"),
    ("//a['storm' = upper-case(@k)]", 13, "the case of the function"),
    ("//a[lower-case(@k) = ('storm', 'Flood')]", 20, "the case of the function"),
    ("//a[contains(lower-case(@k), 'Flood')]", 5, "the case of the function"),
    ("//a[@x = true()]", 8, "whatever it holds"),
    ("//a[false() != b/c]", 13, "whatever it holds"),
    ("//a[b > INF]", 9, "child element of that name"),
]


@pytest.mark.parametrize(("query", "column", "words"), NOTED)
def test_what_is_not_meant_so_is_warned_of_with_its_place(query: str, column: int, words: str) -> None:
    [warning] = warnings_of(query)
    assert f"column {column}: " in warning
    assert words in warning
    assert any(words in said for said in check(query).warnings)


@pytest.mark.parametrize(
    "query",
    [
        "//a[@t >= 2024]",
        "//a[@t = '2024']",
        "//a[@id = 9007199254740992]",
        "//a[@id = 1000000000000000000000]",
        "//a[@x < 0.1]",
        "//a[@x < 00012.50]",
        "//a[@d >= xs:date('2024-01-01')]",
        "for $m in //m return <x>{ $m/@n }</x>",
        "for $m in //m return <x>{ $m/f[1]/@n }</x>",
        "for $m in //m return <x n='{ $m/f/@n }'/>",
        "for $m in //m return <x>{ string-join($m/f/@n, ' ') }</x>",
        "for $m in //m return <x>{ for $f in $m/f return <f>{ $f/@n }</f> }</x>",
        "for $m in //m for $n in $m/f/@n return <x>{ $n }</x>",
        "//a[@x > 1e308 or @x < 1e-300 or @x = 0e-400]",
        "//a[@k = 'x'][@t >= 2024 - 01 - 31]",
        "//a[@k = 'x'][@t = '2024-01-31' or @n = 2024-1]",
        "//a[lower-case(@k) = 'straße' or upper-case(@k) = 'STRASSE 5']",
        "//a[@k = 'x'][matches(., 'x') = true()]",
        "//a[@x = 'true']",
    ],
)
def test_what_may_be_meant_so_is_not_warned_of(query: str) -> None:
    assert not warnings_of(query)


# --- For-Where-Return -------------------------------------------------------------------------------------------------


def test_dates_are_bound_sorted_and_written() -> None:
    message = (
        "<r><i d='2026-11-30'/><i d='n/a'/><i d='2026-11-29-12:00'/><i d='2026-02-28'/><i d='2026-11-30+13:00'/></r>"
    )
    query = (
        "for $i in //i let $due := xs:date($i/@d) + xs:yearMonthDuration('P1M') "
        "where $due > xs:date('2026-12-01') order by $due return <due of='{ $i/@d }'>{ $due }</due>"
    )
    assert results(query, message) == (
        '<due of="2026-11-30+13:00">2026-12-30+13:00</due><due of="2026-11-29-12:00">2026-12-29-12:00</due>'
        '<due of="2026-11-30">2026-12-30</due>'
    )


def test_no_value_is_written_as_nothing_and_sorted_first() -> None:
    query = "for $i in //i let $d := xs:date($i) order by $d return <d>{ $d, year-from-date($d) }</d>"
    assert results(query, "<r><i>2026-11-30</i><i>x</i></r>") == "<d/><d>2026-11-30 2026</d>"


def test_durations_are_written_in_their_canonical_form() -> None:
    query = "for $r in /r return <x>{ xs:dateTime($r/@to) - xs:dateTime($r/@from) }</x>"
    message = "<r from='2026-11-30T12:00:00+02:00' to='2026-12-02T10:30:00.50Z'/>"
    assert results(query, message) == "<x>P2DT30M0.5S</x>"


# --- explanation and refusals -----------------------------------------------------------------------------------------

HINTS = [
    ("//v[@n < 1000]", "<v n='1e2'/>", "has an exponent"),
    ("//v[@n < xs:date('2026-11-30')]", "<v n='30.11.2025'/>", "is no value of xs:date"),
]


@pytest.mark.parametrize(("query", "message", "words"), HINTS)
def test_an_explanation_says_that_a_text_is_no_value(query: str, message: str, words: str) -> None:
    assert words in str(explain(query, message))


REFUSED = [
    ("//a[@d castable as xs:date]", "[xs:date(a)]"),
    ("//a[@v = version('1')]", "twig:version(a)"),
    ("//a[xs:duration(@p) > 1]", "xs:dayTimeDuration"),
    ("//a[xs:gYear(@p) > 1]", "of the types there are"),
    ("for $a in //a let $v := twig:version($a/@v) return $v", "can only be compared"),
    ("//a[xs:date(@d) + xs:time(@t) = @x]", "a date or time takes a duration"),
    ("//a[resolve-QName(@t, 'x') = xs:QName('a')]", "the element whose namespaces are in scope"),
    ("//a[xs:date('2026-11-30') + xs:dayTimeDuration('P10640000D') > xs:date(@d)]", "out of range"),
]


@pytest.mark.parametrize(("query", "words"), REFUSED)
def test_refusals_say_what_to_write(query: str, words: str) -> None:
    with pytest.raises(QueryError, match=re.escape(words)):
        SubscriptionSet().add("q", query)
