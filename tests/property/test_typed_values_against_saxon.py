"""Dates, durations, numbers and names with types, against Saxon: generated conditions, alone and in sets that change.

Where a text is no value of the type that is asked for, Saxon raises an error, and here nothing matches: the oracle is
asked only after it has said that the text is one.
"""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.property.saxon_oracle import saxon
from twigcast import SubscriptionSet
from twigcast.registration import Dialect

# What has no offset is of UTC; Saxon takes the zone of its machine.
os.environ["TZ"] = "UTC"

SEED = int(os.environ.get("XPATH_SEED", "1"))
PAIRS = {"thorough": 10_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)
PER_MESSAGE = 20

NAMESPACES = {"p": "urn:one", "q": "urn:two", "xsi": "http://www.w3.org/2001/XMLSchema-instance"}
WRONG = (
    "",
    "x",
    "2026-11-30",
    "12:00:00",
    "P1",
    "1e",
    "2026-02-29T00:00:00",
    "2026-11-30T12:00:00+15:00",
    "P1Y1D",
    "--1",
)
DATE_TIMES = (
    *("2026-11-30T12:00:00Z", "2026-11-30T14:00:00+02:00", "2026-11-30T12:00:00", "2026-11-30T07:00:00-05:00"),
    *("2026-11-30T12:00:00.5Z", "2026-11-30T12:00:00.5000001Z", "2026-11-29T24:00:00Z", " 2026-11-30T00:00:00 "),
    *("2024-02-29T23:59:59.999+14:00", "1999-12-31T23:59:59Z", "2000-01-01T00:59:59+01:00", "1564-04-26T08:00:00"),
    *("-0044-03-15T12:00:00Z", "2026-03-31T01:30:00+05:30", "12026-01-01T00:00:00Z"),
)
DATES = (
    *("2026-11-30", "2026-11-30Z", "2026-11-30+02:00", "2026-11-29-12:00", "2026-12-01+14:00", "2024-02-29"),
    *("2023-02-28", "2024-01-31", "1900-03-01", "1564-04-26", "-0044-03-15", "2000-01-01-05:00"),
)
TIMES = (
    "12:00:00",
    "12:00:00Z",
    "14:00:00+02:00",
    "24:00:00",
    "00:00:00Z",
    "23:59:59.5-05:00",
    "04:59:59.5Z",
    "08:15:30",
)
DAY_TIMES = ("PT0S", "P1D", "PT24H", "-P1D", "PT1H30M", "PT90M", "P3DT4H5M6.5S", "-PT0.5S", "P366D", "PT1M")
YEAR_MONTHS = ("P0M", "P1Y", "P12M", "-P1M", "P1Y2M", "P18M", "-P1Y", "P400Y")
NUMBERS = (
    "1e3",
    "1000",
    "1E3",
    "+4",
    "-0",
    "0",
    "-1.5e-2",
    ".5",
    "5.",
    "INF",
    "-INF",
    "NaN",
    "1e400",
    "7",
    "-7.25",
    " 3 ",
)
DECIMALS = ("1000", "+4", "-0", ".5", "5.", "7", "-7.25", " 3 ", "0.1")
TYPES = ("p:T", "q:T", "T", " p:U ", "z:T", "xml:T", "p:T:U", "1", "r:T")


@dataclass(frozen=True)
class Operand:
    """An expression, and what Saxon has to say of its texts before it may evaluate it."""

    text: str
    guards: tuple[str, ...] = ()


Make = Callable[[Random], Operand]


def _value(r: Random, values: tuple[str, ...]) -> str:
    return r.choice(values) if r.random() < 0.85 else r.choice(WRONG)


def message(r: Random) -> str:
    """A report of elements with a value of each type in an attribute, and values of two in children."""
    kinds = {"t": DATE_TIMES, "d": DATES, "h": TIMES, "p": DAY_TIMES, "y": YEAR_MONTHS, "x": NUMBERS, "n": DECIMALS}
    elements = []
    for _ in range(1 + r.randrange(3)):
        attributes = "".join(f" {k}='{_value(r, values)}'" for k, values in kinds.items() if r.random() < 0.9)
        if r.random() < 0.7:
            attributes += f" xsi:type='{r.choice(TYPES)}'"
        declared = r.choice(("", " xmlns:p='urn:two'", " xmlns:r='urn:one'", " xmlns='urn:one'"))
        children = [f"<t>{_value(r, DATE_TIMES)}</t>" for _ in range(r.randrange(3))]
        children += [f"<x>{_value(r, NUMBERS)}</x>" for _ in range(r.randrange(3))]
        r.shuffle(children)
        # An element in another namespace has the children there, too: only its attributes are asked for.
        name = "q:a" if "xmlns=" in declared else "a"
        elements.append(f"<{name}{attributes}{declared}>{''.join(children)}</{name}>")
    roots = " ".join(f"xmlns:{prefix}='{uri}'" for prefix, uri in NAMESPACES.items())
    return f"<r {roots}>{''.join(elements)}</r>"


def _read(kind: str, source: str) -> Operand:
    return Operand(f"xs:{kind}({source})", (f"{source} castable as xs:{kind}",))


def _constant(kind: str, r: Random, values: tuple[str, ...]) -> Operand:
    return Operand(f"xs:{kind}('{r.choice(values)}')")


def _joined(first: Operand, symbol: str, second: Operand) -> Operand:
    return Operand(f"({first.text} {symbol} {second.text})", first.guards + second.guards)


def _called(function: str, argument: Operand) -> Operand:
    return Operand(f"{function}({argument.text})", argument.guards)


def date_time(r: Random, depth: int = 0) -> Operand:
    """A date and time."""
    chance = r.random()
    if chance < 0.4:
        return _read("dateTime", r.choice(("@t", "@t", "t[1]")))
    if chance < 0.75 or depth:
        return _constant("dateTime", r, DATE_TIMES)
    duration = r.choice((day_time, year_month))(r, 1)
    return _joined(date_time(r, 1), r.choice("+-"), duration)


def date(r: Random, depth: int = 0) -> Operand:
    """A day."""
    chance = r.random()
    if chance < 0.4:
        return _read("date", "@d")
    if chance < 0.65 or depth:
        return _constant("date", r, DATES)
    if chance < 0.75:
        return _called("xs:date", date_time(r, 1))
    return _joined(date(r, 1), r.choice("+-"), r.choice((day_time, year_month))(r, 1))


def time(r: Random, depth: int = 0) -> Operand:
    """A time of the day."""
    chance = r.random()
    if chance < 0.5:
        return _read("time", "@h")
    if chance < 0.8 or depth:
        return _constant("time", r, TIMES)
    return _joined(time(r, 1), r.choice("+-"), day_time(r, 1))


def day_time(r: Random, depth: int = 0) -> Operand:
    """A duration of days and less."""
    chance = r.random()
    if chance < 0.4:
        return _read("dayTimeDuration", "@p")
    if chance < 0.6 or depth:
        return _constant("dayTimeDuration", r, DAY_TIMES)
    if chance < 0.8:
        make = r.choice((date_time, date, time))
        return _joined(make(r, 1), "-", make(r, 1))
    return _joined(day_time(r, 1), r.choice(("*", "div")), Operand(r.choice(("2", "0.5", "4", "-1"))))


def year_month(r: Random, depth: int = 0) -> Operand:
    """A duration of months."""
    chance = r.random()
    if chance < 0.5:
        return _read("yearMonthDuration", "@y")
    if chance < 0.8 or depth:
        return _constant("yearMonthDuration", r, YEAR_MONTHS)
    return _joined(year_month(r, 1), r.choice("+-"), year_month(r, 1))


def double(r: Random) -> Operand:
    """A number that may have an exponent."""
    chance = r.random()
    if chance < 0.5:
        return _read("double", r.choice(("@x", "@n", "x[1]")))
    return _constant("double", r, NUMBERS) if chance < 0.8 else Operand(r.choice(("4", "1000", "0.5", "-7.25")))


def compared(r: Random, first: Operand, second: Operand) -> tuple[str, str]:
    """A comparison, and what Saxon is asked for it."""
    condition = f"{first.text} {r.choice(('=', '!=', '<', '<=', '>', '>='))} {second.text}"
    guards = " and ".join(dict.fromkeys(first.guards + second.guards)) or "true()"
    return condition, f"(if ({guards}) then {condition} else false())"


def of(make: Callable[[Random], Operand]) -> Callable[[Random], tuple[str, str]]:
    """Comparisons of two values of a type."""
    return lambda r: compared(r, make(r), make(r))


def of_nodes(r: Random) -> tuple[str, str]:
    """Nodes compared with a value, each read as one of its type."""
    kind, path, values = r.choice(
        (
            ("dateTime", r.choice(("@t", "t", ".//t", "@t | t")), DATE_TIMES),
            ("date", "@d", DATES),
            ("time", "@h", TIMES),
            ("dayTimeDuration", "@p", DAY_TIMES),
            ("yearMonthDuration", "@y", YEAR_MONTHS),
            ("double", r.choice(("@x", "x", "@x | @n")), NUMBERS),
        )
    )
    constant = f"xs:{kind}('{r.choice(values)}')"
    operator = r.choice(("=", "!=", "<", "<=", ">", ">="))
    # Saxon 12 takes the text NaN for greater than any number, and -0 for less than 0, where it reads them by itself.
    read = " ! xs:double(.)" if kind == "double" else ""
    texts = f"(({path})[. castable as xs:{kind}]{read})"
    if r.random() < 0.3:
        return f"{constant} {operator} ({path})", f"{constant} {operator} {texts}"
    return f"({path}) {operator} {constant}", f"{texts} {operator} {constant}"


def between(r: Random) -> tuple[str, str]:
    """A range of dates."""
    low, high = (f"xs:dateTime('{r.choice(DATE_TIMES)}')" for _ in range(2))
    lower, upper = r.choice((">", ">=")), r.choice(("<", "<="))
    guarded = "@t[. castable as xs:dateTime]"
    return f"@t {lower} {low} and @t {upper} {high}", f"{guarded} {lower} {low} and {guarded} {upper} {high}"


def component(r: Random) -> tuple[str, str]:
    """A part of a date, a time or a duration."""
    parts, kind, make = r.choice(
        (
            (("year", "month", "day", "hours", "minutes", "seconds"), "dateTime", date_time),
            (("year", "month", "day"), "date", date),
            (("hours", "minutes", "seconds"), "time", time),
            (("days", "hours", "minutes", "seconds"), "duration", day_time),
            (("years", "months"), "duration", year_month),
        )
    )
    number = Operand(r.choice(("0", "1", "2", "5", "11", "12", "14", "29", "30", "59.5", "2026", "-1", "-44")))
    return compared(r, _called(f"{r.choice(parts)}-from-{kind}", make(r)), number)


def exact_number(r: Random) -> tuple[str, str]:
    """A number without an exponent."""
    kind = r.choice(("decimal", "integer"))
    return compared(r, _read(kind, r.choice(("@n", "@x"))), Operand(r.choice(("1000", "4", "7", "0.5", "0.1"))))


def ratio(r: Random) -> tuple[str, str]:
    """How many times a duration is in another."""
    make, values = r.choice(((day_time, DAY_TIMES[1:]), (year_month, YEAR_MONTHS[1:])))
    kind = "dayTimeDuration" if make is day_time else "yearMonthDuration"
    return compared(r, _joined(make(r), "div", _constant(kind, r, values)), Operand(r.choice(("1", "0.5", "-1", "12"))))


def name(r: Random) -> tuple[str, str]:
    """A name that an attribute holds, by the namespaces in scope there."""
    operator, expected = r.choice(("=", "!=")), f"xs:QName('{r.choice(('p:T', 'q:T', 'p:U', 'T'))}')"
    prefix = "substring-before(normalize-space(@xsi:type), ':')"
    has_colon = "matches(@xsi:type, '^\\s*\\i[^:]*:\\i[^:]*$')"
    is_name = f"@xsi:type castable as xs:NCName or {has_colon} and {prefix} = in-scope-prefixes(.)"
    ours = r.choice(("@xsi:type", "resolve-QName(@xsi:type, .)"))
    return (
        f"{ours} {operator} {expected}",
        f"(if ({is_name}) then resolve-QName(normalize-space(@xsi:type), .) {operator} {expected} else false())",
    )


CONSTRUCTS: dict[str, Callable[[Random], tuple[str, str]]] = {
    "dateTime": of(date_time),
    "date": of(date),
    "time": of(time),
    "dayTimeDuration": of(day_time),
    "yearMonthDuration": of(year_month),
    "double": of(double),
    "nodes": of_nodes,
    "between": between,
    "component": component,
    "exact number": exact_number,
    "ratio": ratio,
    "name": name,
}
"""Conditions on an element, by what they are about: as they are here, and as Saxon is asked."""


def of_doubles(r: Random) -> tuple[str, str]:
    """A comparison of texts with a number in the dialect `doubles`, which reads them as XPath 3.1 does."""
    number = r.choice(("4", "1000", "0.5", "-7.25", "-0.015"))
    symbol = r.choice(("=", "!=", "<", "<=", ">", ">="))
    path = r.choice(("@x", "x", "@n", "@x | @n"))
    kind = r.random()
    if kind < 0.5:
        texts = f"(({path})[. castable as xs:double] ! xs:double(.))"
        return f"({path}) {symbol} {number}", f"{texts} {symbol} xs:double({number})"
    one, sign = r.choice(("@x", "@n")), r.choice("+-*")
    ours, guard = f"{one} {sign} 2 {symbol} {number}", f"{one} castable as xs:double"
    # Of a text that is no number these functions make NaN, as XPath 1.0 does.
    if kind < 0.8 and symbol != "!=":
        ours = f"{'abs' if kind < 0.7 else 'floor'}({one}) {symbol} {number}"
    # Saxon 12 takes NaN for greater than any number.
    guard += f" and xs:double({one}) = xs:double({one})" if symbol != "!=" else ""
    return ours, f"(if ({guard}) then {ours.replace(one, f'xs:double({one})')} else false())"


def query(r: Random, make: Callable[[Random], tuple[str, str]]) -> tuple[str, str]:
    """A query with a condition of one kind, at times with another beside it."""
    ours, asked = make(r)
    if r.random() < 0.3:
        other, other_asked = r.choice(list(CONSTRUCTS.values()))(r)
        word = r.choice(("and", "or"))
        ours, asked = f"({ours}) {word} ({other})", f"({asked}) {word} ({other_asked})"
    if r.random() < 0.2:
        ours, asked = f"not({ours})", f"not({asked})"
    path = r.choice(("/r/a", "//a", "/r//*[self::a]", "/r/*"))
    return f"{path}[{ours}]", f"{path}[{asked}]"


def _set_of(queries: list[str], dialect: Dialect = "xpath") -> SubscriptionSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subscriptions = SubscriptionSet(namespaces=NAMESPACES, dialect=dialect)
        refused = subscriptions.add_many((text, text) for text in queries).refused
    assert not refused, refused[0]
    return subscriptions


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_each_construct_means_what_it_means_to_saxon(construct: str) -> None:
    make, matched = CONSTRUCTS[construct], 0
    r = Random(f"{SEED} {construct}")
    for turn in range(PAIRS // PER_MESSAGE):
        pairs = dict(query(r, make) for _ in range(PER_MESSAGE))
        xml = message(r)
        queries = list(pairs)
        found = set(_set_of(queries).match(xml).keys)
        alone = [bool(_set_of([text]).match(xml)) for text in queries[:3]]
        answers = saxon().answers(xml, list(pairs.values()), NAMESPACES)
        reported = f"XPATH_SEED={SEED}, turn {turn}, on {xml}"
        wanted = {text for text, holds in zip(queries, answers, strict=True) if holds}
        assert found == wanted, f"{reported}: {found ^ wanted}"
        assert alone == answers[:3], reported
        matched += len(wanted)
    assert matched > PAIRS // 50


def test_numbers_with_exponents_mean_what_they_mean_to_saxon() -> None:
    r, matched = Random(f"{SEED} doubles"), 0
    for turn in range(PAIRS // PER_MESSAGE):
        pairs = {f"/r/a[{ours}]": f"/r/a[{asked}]" for ours, asked in (of_doubles(r) for _ in range(PER_MESSAGE))}
        xml, queries = message(r), list(pairs)
        found = set(_set_of(queries, "doubles").match(xml).keys)
        alone = [bool(_set_of([text], "doubles").match(xml)) for text in queries[:3]]
        answers = saxon().answers(xml, list(pairs.values()), NAMESPACES)
        reported = f"XPATH_SEED={SEED}, turn {turn}, on {xml}"
        wanted = {text for text, holds in zip(queries, answers, strict=True) if holds}
        assert found == wanted, f"{reported}: {found ^ wanted}"
        assert alone == answers[:3], reported
        matched += len(wanted)
    assert matched > PAIRS // 50


def _version(text: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """The order of versions, said once more: numbers, whether it is no preliminary one, the parts of its name."""
    numbers, hyphen, name = text.strip().removeprefix("v").partition("+")[0].partition("-")
    counted = [int(number) for number in numbers.split(".")]
    while counted and counted[-1] == 0:
        counted.pop()
    parts = tuple((not one.isdigit(), int(one) if one.isdigit() else 0, one) for one in name.split(".") if hyphen)
    return tuple(counted), not hyphen, parts


def test_versions_are_in_order() -> None:
    r, matched = Random(f"{SEED} versions"), 0
    symbols: dict[str, Callable[[Any, Any], bool]] = {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
    names = ("", "", "", "-rc.2", "-rc.10", "-alpha", "-1", "+build.7", "-rc.2+5")
    for turn in range(PAIRS // PER_MESSAGE):
        at = ".".join(str(r.choice((0, 1, 2, 9, 10, 17, 100))) for _ in range(r.randrange(1, 5))) + r.choice(names)
        at = r.choice(("", "", "v", " ")) + at
        xml, expected = f"<a v='{at}'/>", {}
        for _ in range(PER_MESSAGE):
            bound = ".".join(str(r.choice((0, 1, 2, 9, 10, 17))) for _ in range(r.randrange(1, 4))) + r.choice(names)
            bound, symbol = at.strip() if r.random() < 0.1 else bound, r.choice(list(symbols))
            holds = symbols[symbol](_version(at), _version(bound))
            expected[f"/a[@v {symbol} twig:version('{bound}')]"] = holds
        found = set(_set_of(list(expected)).match(xml).keys)
        wanted = {text for text, holds in expected.items() if holds}
        assert found == wanted, f"XPATH_SEED={SEED}, turn {turn}, on {xml}: {found ^ wanted}"
        for text in list(expected)[:2]:
            assert bool(_set_of([text]).match(xml)) == expected[text], f"{text} on {xml}"
        matched += len(wanted)
    assert matched > PAIRS // 4


@pytest.mark.parametrize("population", [30, pytest.param(1_000, marks=pytest.mark.slow)])
def test_constructs_keep_their_meaning_in_sets_that_change(population: int) -> None:
    r = Random(SEED + population)
    subscriptions, asked = SubscriptionSet(namespaces=NAMESPACES), dict[str, str]()
    for turn in range(8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while len(asked) < population:
                text, question = query(r, r.choice(list(CONSTRUCTS.values())))
                subscriptions.add_many([(text, text)], replace=True)
                asked[text] = question
        xml = message(r)
        found = set(subscriptions.match(xml).keys)
        answers = saxon().answers(xml, list(asked.values()), NAMESPACES)
        wanted = {text for text, holds in zip(asked, answers, strict=True) if holds}
        assert found == wanted, f"XPATH_SEED={SEED}, turn {turn}, on {xml}: {found ^ wanted}"
        for text in r.sample(sorted(asked), population // 3):
            subscriptions.remove(text)
            del asked[text]
