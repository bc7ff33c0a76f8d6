"""Numbers in results are written as XQuery writes them in the dialect ``xquery``, whoever evaluates the query."""

from __future__ import annotations

import os
import random
import re

import pytest

from tests.seeds import printed_seed
from tests.xquery.test_empty_results import both
from twigcast import SubscriptionSet

pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")

VALUES = [
    *("0", "1", "-2", "10", "0.1", "0.25", "1e3", "1e7", "10000000", "999999", "1000000", "1234567.5", "1e21", "-1e21"),
    *("1e-6", "0.0000001", "123456789012345678", "INF", "-INF", "NaN", "high", "", "5e-300", "1.7976931348623157e308"),
    *("-0", "-0.0", "-0"),
]
PAIRS = int(os.environ.get("TWIGCAST_TEST_PAIRS", "160"))


def _number(chance: random.Random, depth: int = 0) -> str:
    """Returns a number that is written."""
    plain = [
        "$a/@n",
        "$a/b[1]",
        "number($a/@n)",
        "sum($a/b)",
        "count($a/b)",
        "10000000",
        "2",
        "1e7",
        "0.25",
        "$i",
        "$s",
    ]
    if depth > 1 or chance.random() < 0.35:
        return chance.choice(plain)
    one, other = _number(chance, depth + 1), _number(chance, depth + 1)
    return chance.choice(
        [
            f"({one} * {other})",
            f"({one} + {other})",
            f"({one} - {other})",
            f"abs({one})",
            f"floor({one})",
            f"round({one})",
            f"-{one}" if one[0] in "$(" else one,
            "max($a/b)",
            "min($a/b)",
            "avg($a/b)",
            "sum($a/b ! string-length())",
            "string-length($a/@n)",
            "($a/@n div 3)",
        ]
    )


def _returned(chance: random.Random) -> str:
    number = _number(chance)
    if number in {"$a/@n", "$a/b[1]"}:
        number = f"({number} * 1)"
    return chance.choice(
        [
            f"<x>{{ {number} }}</x>",
            f"<x n='{{ {number} }}'/>",
            f"<x>{{ string({number}) }}</x>",
            f"<x>{{ 'n' || {number} }}</x>",
            f"<x>{{ concat({number}, ';') }}</x>",
            "<x>{ $a/b ! (. * 1000) }</x>",
            "<x>{ string-join($a/b ! (. * 10), ' ') }</x>",
            "<x>{ distinct-values($a/b ! (. * 1000)) }</x>",
            number,
        ]
    )


def _query(chance: random.Random) -> str:
    if chance.random() < 0.2:
        # The groups of XQuery have no order of their own.
        key = chance.choice(
            ["number($b)", "($b * 1)", "-number($b)", "round($b * 1)", "string(number($b))", "xs:double($b)"]
        )
        returned = chance.choice(
            ["<g k='{ $k }'>{ sum($b) }</g>", "<g>{ $k, count($b) }</g>", "<g>{ min($b), max($b) }</g>"]
        )
        return f"for $b in //b[number(.) = number(.)] group by $k := {key} order by string($k) return {returned}"
    return f"for $a at $i in //a let $s := sum($a/b) return {_returned(chance)}"


def _message(chance: random.Random) -> bytes:
    def value() -> str:
        return chance.choice(VALUES)

    def one() -> str:
        key = f" n='{value()}'" if chance.random() < 0.9 else ""
        return f"<a{key}>{''.join(f'<b>{value()}</b>' for _ in range(chance.randrange(3)))}</a>"

    return f"<r>{''.join(one() for _ in range(chance.randint(1, 2)))}</r>".encode()


def _shortest(payload: bytes) -> bytes:
    """Returns a result with the fewest digits of numbers: Saxon may write 1.2345675000000001E20 for 1.2345675E20."""
    return re.sub(rb"\d\.\d+E-?\d+", lambda number: repr(float(number[0])).encode(), payload)


@pytest.mark.slow
def test_generated_numbers_are_written_alike() -> None:
    chance = random.Random(printed_seed())
    natives = 0
    for _ in range(PAIRS // 2):
        query = _query(chance)
        own, saxon = both(query)
        native = own.describe("q").route != "xquery"
        for message in (_message(chance), _message(chance)):
            if b"NaN" in message and any(
                name in query for name in ("max(", "min(", "avg(", "abs(", "floor(", "round(")
            ):
                # The engine does not tell a NaN that is written from what is no number.
                continue
            natives += native
            match, expected = own.deliver(message), saxon.deliver(message)
            assert match.undecided == expected.undecided, (query, message)
            results, wanted = ([_shortest(one.payload) for one in answer] for answer in (match, expected))
            assert results == wanted, (query, message)
    assert natives > PAIRS // 3


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("sum(//n)", b"1.0E7"),
        ("count(//n) * 10000000", b"20000000"),
        ("number(//n[1]) div 0", b"INF"),
        ("-(//n[1]) div 0", b"-INF"),
        ("//n[1] * 0.00000001", b"0.05"),
        ("number(//n[1]) * 1e-14", b"5.0E-8"),
        ("number('x')", b"NaN"),
        ("string(sum(//n))", b"1.0E7"),
        ("string(10000000)", b"10000000"),
        # The sum of nothing is an integer.
        ("10000000 - sum(//none)", b"10000000"),
        ("10000000 - sum(//n) * 0", b"1.0E7"),
        ("-sum(//none)", b"0"),
        # Of negative zeros the sum is one, as of XPath 1.0's numbers.
        ("sum(//n ! (. * -0e0))", b"-0"),
        ("sum((//n)[1] ! (. * -0e0))", b"-0"),
        ("sum(//n) * -0e0", b"-0"),
        ("1 div sum(//n ! (. * -0e0))", b"-INF"),
        ("-1 * 0", b"0"),
    ],
)
def test_numbers_are_written_as_their_types_are(number: str, written: bytes) -> None:
    query = f"for $r in /r return <x>{{ {number} }}</x>"
    subscriptions = SubscriptionSet([("q", query)], dialect="xquery")
    [delivery] = subscriptions.deliver(b"<r><n>5000000</n><n>5e6</n></r>")
    assert delivery.payload == b"<x>" + written + b"</x>"
    # The dialect `xpath` writes them as XPath 1.0 does.
    assert b"E" not in SubscriptionSet([("q", query)]).deliver(b"<r><n>5000000</n><n>5e6</n></r>")[0].payload


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ("-0 0", b'<g k="-0">2</g>'),
        ("0 -0", b'<g k="0">2</g>'),
        ("-0 -0.0", b'<g k="-0">2</g>'),
        ("0", b'<g k="0">1</g>'),
    ],
)
def test_a_group_of_zeros_has_the_one_that_came_first(values: str, written: bytes) -> None:
    message = f"<r>{''.join(f'<n>{value}</n>' for value in values.split())}</r>"
    own, saxon = both("for $n in //n group by $k := number($n) return <g k='{ $k }'>{ count($n) }</g>")
    for subscriptions in (own, saxon):
        assert [one.payload for one in subscriptions.deliver(message)] == [written]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("'n' || -$v/@k", [b"n-2", b"n3"]),
        ("'n' || - $v/@k || ';'", [b"n-2;", b"n3;"]),
        ("-$v/@k || +$v/@k", [b"-22", b"3-3"]),
        ("'n' || (-$v/@k)", [b"n-2", b"n3"]),
        ("2 - -$v/@k || 'x'", [b"4x", b"-1x"]),
        ("'n' ||-$v/@k", [b"n-2", b"n3"]),
    ],
)
def test_a_sign_behind_an_operator_belongs_to_its_operand(text: str, values: list[bytes]) -> None:
    own, saxon = both(f"for $v in //v return <x>{{ {text} }}</x>")
    for subscriptions in (own, saxon):
        [delivery] = subscriptions.deliver(b"<r><v k='2'/><v k='-3'/></r>")
        assert delivery.payload == b"".join(b"<x>" + value + b"</x>" for value in values)
