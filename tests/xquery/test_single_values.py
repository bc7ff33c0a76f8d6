"""A query that is a value means the same in the dialect ``xquery`` whoever evaluates it: the engine or Saxon."""

from __future__ import annotations

import os
import random

import pytest

from tests.seeds import printed_seed
from tests.xquery.test_empty_results import both
from twigcast import QueryError, SubscriptionSet, check

pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")

VALUES = ["", "0", "1", "2", "-0", "00", "NaN", "INF", "-INF", "false", "true", "text", "a b", "1e3", " ", "2024-01-01"]
PAIRS = int(os.environ.get("TWIGCAST_TEST_PAIRS", "160"))
PER_MESSAGE = 4


def _atoms(chance: random.Random, at: str) -> str:
    """An expression of one value for each node that ``at`` leads to, or of several."""
    here = chance.choice(["@k", "b", "."])
    one = chance.choice(
        [
            f"string({here})",
            f"number({here})",
            f"lower-case({here})",
            f"string-length({here})",
            f"concat({here}, @m)",
            f"substring({here}, 1, {chance.randrange(3)})",
            "0",
            "1",
            "''",
            "'x'",
            "position()",
            f"({here} * {chance.randrange(3)})",
            f"count({here})",
            f"tokenize({here}, ' ')",
            f"normalize-space({here})",
            f"abs({here})",
        ]
    )
    # A step that is a number, a text or a bracket is none of XPath 1.0, so it stands behind `!`.
    separator = "/" if one[0].isalpha() and chance.random() < 0.5 else " ! "
    return f"{at}{separator}{one}"


def _value(chance: random.Random) -> str:
    """An expression that a query may be: a value, or a sequence of them."""
    at = chance.choice(["//a", "/r/a", "(//a)[1]", "//a[@m]", "//none", "//a[last()]"])
    kind = chance.randrange(10)
    if kind < 4:
        return _atoms(chance, at)
    if kind == 4:
        return f"({_atoms(chance, at)})[{chance.choice(['1', 'last()', '. != 1', '2'])}]"
    if kind == 5:
        return f"{at} ! b ! {chance.choice(['string()', 'number()', '(. * 2)'])}"
    if kind == 6:
        return f"{at} ! string(@k) ! {chance.choice(['string-length()', 'number()', 'lower-case(.)'])}"
    if kind == 7:
        return f"distinct-values({chance.choice([f'{at}/@k', f'{at} ! number(@k)', f'{at}/b'])})"
    if kind == 8:
        return chance.choice(
            ["string((//a)[1]/@k)", "number((//a)[1]/@k)", "sum(//a ! 0)", "count(//a)", "(//a)[1]/@k || ''", "''", "0"]
        )
    return f"tokenize(string(({at}/@k)[1]), ' ')"


def _query(chance: random.Random, depth: int = 0) -> str:
    """A query in which values decide."""
    one = _value(chance)
    if depth > 1 or chance.random() < 0.45:
        return one
    other = _query(chance, depth + 1)
    return chance.choice(
        [
            f"{one} and ({other})",
            f"{one} or ({other})",
            f"not({one})",
            f"boolean({one})",
            f"exists({one})" if one.startswith(("//", "/r", "(//a)[1] !", "(//a)[1]/")) and "||" not in one else one,
            f"empty({chance.choice(['//a', '//none'])} ! string(@k))",
            f"if ({one}) then {chance.choice(['exists(//a)', 'not(//b)'])} else count(//a) > 1",
            f"let $x := {one} return $x and 1 = 1",
            f"let $x := //a ! string(@k) return {chance.choice(['$x', 'count($x)', 'boolean($x)', 'exists($x)'])}",
            "some $x in //a satisfies $x/string(@k)",
            "every $x in //a satisfies $x/@k ! string()",
            f"some $x in //a ! {chance.choice(['string(@k)', 'string()'])} satisfies $x",
            f"//a[{chance.choice(['@k ! string()', 'tokenize(@k)', 'b/string()', 'boolean(b ! number())'])}]",
            "//a[@k ! number()]",
        ]
    )


def _message(chance: random.Random) -> bytes:
    def one() -> str:
        inner = "".join(f"<b>{chance.choice(VALUES)}</b>" for _ in range(chance.choice([0, 1, 1, 2])))
        marked = f" m='{chance.choice(VALUES)}'" if chance.random() < 0.5 else ""
        key = f" k='{chance.choice(VALUES)}'" if chance.random() < 0.9 else ""
        return f"<a{key}{marked}>{inner or chance.choice(VALUES)}</a>"

    return f"<r>{''.join(one() for _ in range(chance.choice([0, 1, 1, 1, 2, 3])))}</r>".encode()


@pytest.mark.slow
def test_generated_values_decide_alike_alone_and_in_a_population() -> None:
    chance = random.Random(printed_seed())
    natives = matched = 0
    for _ in range(PAIRS // PER_MESSAGE):
        queries = list(dict.fromkeys(_query(chance) for _ in range(PER_MESSAGE)))
        pairs = {query: both(query) for query in queries}
        population = SubscriptionSet(((query, query) for query in queries), dialect="xquery")
        for message in (_message(chance), _message(chance)):
            together = population.match(message).keys
            for query, (own, saxon) in pairs.items():
                match, expected = own.match(message), saxon.match(message)
                assert (match.keys, match.undecided) == (expected.keys, expected.undecided), (query, message)
                assert (query in together) == bool(match), (query, message)
                payloads = [(one.rewritten, one.payload) for one in own.deliver(message)]
                assert payloads == [(one.rewritten, one.payload) for one in saxon.deliver(message)], (query, message)
                native = own.describe("q").route != "xquery"
                natives += native
                matched += native and bool(match)
    assert natives > PAIRS // 2
    assert PAIRS // 5 < matched < natives


@pytest.mark.parametrize("dialect", ["xpath", "xquery"])
def test_a_single_value_decides_by_what_it_is(dialect: str) -> None:
    def matches(query: str, message: str) -> bool:
        return bool(SubscriptionSet([("q", query)], dialect=dialect).match(message))  # type: ignore[arg-type]

    for query, empty, full in (
        ("//a/string(@k)", "", "x"),
        ("//a ! number(@k)", "0", "1"),
        ("//a ! (@k * 2)", "zero", "2"),
        ("not(//a/string(@k))", "x", ""),
        ("//a[@k ! string()]", "", "x"),
        ("(//a ! string(@k))[last()]", "", "x"),
        ("some $x in //a/string(@k) satisfies $x", "", "x"),
        ("distinct-values(//a/@k)", "", "x"),
    ):
        assert not matches(query, f"<r><a k='{empty}'/></r>"), query
        assert matches(query, f"<r><a k='{full}'/></r>"), query
    assert not matches("//order ! 0", "<order/>")
    assert matches("//order ! 0", "<r><order/><order/></r>"), "several values hold"
    assert matches("exists(//a/string(@k))", "<a k=''/>")
    assert not matches("empty(//a/tokenize(@k))", "<a k='x y'/>")


def test_existence_is_written_so_that_it_stays_existence() -> None:
    for query in ("exists(//a/string(@k))", "//a[exists(tokenize(@k))]", "some $x in //a/string() satisfies $x = ''"):
        normal = check(query).normal_form
        assert check(normal).normal_form == normal
        for message in ("<a k=''/>", "<a k='x'>x</a>", "<b/>"):
            assert bool(SubscriptionSet([("q", query)]).match(message)) == bool(
                SubscriptionSet([("q", normal)]).match(message)
            ), (query, normal, message)


@pytest.mark.parametrize("query", ["//a[@k ! number()]", "//a[b/string-length()]", "//a[distinct-values(b ! 1)]"])
def test_numbers_in_a_predicate_are_positions(query: str) -> None:
    with pytest.raises(QueryError, match=r"\[position\(\) = "):
        check(query)
    assert check(query, dialect="xquery").route == "xquery"
