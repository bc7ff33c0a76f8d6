"""Regular expressions that are meant to take long, or much memory: refused with a sentence, or in linear time."""

from __future__ import annotations

import pytest

from twigcast import Limits, SubscriptionSet
from twigcast.errors import QueryError

TOO_LONG = "it is too long, its repetitions written out (1000 characters at most)"
FAR = "may read all the rest of a text before another one is taken"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("matches(., 'x{10000}')", TOO_LONG),
        ("matches(., 'x{0,10000}y')", TOO_LONG),
        ("matches(., '(a{100}){100}')", TOO_LONG),
        ("matches(., '((a{50}){50}){50}')", TOO_LONG),
        ("matches(., '((a{9}b){9}c|d){20}')", TOO_LONG),
        ("matches(., '\\p{L}{900}')", TOO_LONG),
        ("matches(., 'a{1000}{1000}')", "follows a quantifier"),
        ("matches(., '(a)\\1')", "refers back"),
        ("replace(., '.*b|a', '') = ''", FAR),
        ("tokenize(., 'x(.*y)?') = 'a'", FAR),
        ("tokenize(., 'a*b|a') = 'a'", FAR),
        ("tokenize(., '(a|ab*c)+') = 'a'", FAR),
        ("matches(., '" + "(" * 300 + "a" + ")" * 300 + "')", ""),
    ],
)
def test_what_could_take_long_is_refused(call: str, reason: str) -> None:
    with pytest.raises(QueryError) as refused:
        SubscriptionSet().add("q", f"//t[{call}]")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("call", "text", "holds"),
    [
        ("matches(., 'x{1000}')", "x" * 1000, True),
        ("matches(., 'x{1000}')", "x" * 999, False),
        ("matches(., '.*b|a')", "a", True),
        ("matches(., '(((a*)*)*)*b')", "a" * 100_000, False),
        ("matches(., '^(a|aa)+$')", "a" * 100_000 + "b", False),
        ("matches(., '(x+x+)+y')", "x" * 100_000, False),
        ("matches(., '(.*a){20}b')", "a" * 100_000, False),
        ("matches(., '.*.*.*.*=.*')", "a" * 100_000, False),
        ("tokenize(., '\\s*[,;]\\s*') = 'b'", "a , b;c", True),
        ("tokenize(., ' +|,') = 'b'", "a b,c", True),
        ("replace(., '(a+)(b|$)', '$2') = 'bb'", "aabab", True),
        (f"matches(., '{'|'.join(f'word{number}' for number in range(10_000))}')", "has word9999 in it", True),
        (f"matches(., '{'|'.join(f'w{number}[0-9]+x' for number in range(1_000))}')", "has w99912x in it", True),
    ],
)
def test_what_takes_linear_time_is_evaluated(call: str, text: str, holds: bool) -> None:
    subscriptions = SubscriptionSet([("q", f"//t[{call}]")])
    match = subscriptions.match(f"<m><t>{text}</t></m>")
    assert not match.undecided
    assert bool(match) == holds


def test_many_places_count_in_the_budget_of_a_message() -> None:
    # No automaton of a bounded size keeps where each of the last 900 letters began.
    heavy, light = "//t[matches(., '[xw]*x[xw]{900}z')]", "//t[matches(., '[xw]*x[xw]+z')]"
    subscriptions = SubscriptionSet(
        [("heavy", heavy), ("light", light)], limits=Limits(query_visits_max=1_000_000, message_visits_max=1_000_000)
    )
    match = subscriptions.match(f"<m><t>{'xw' * 10_000}yz</t></m>")
    assert [one.key for one in match.undecided] == ["heavy"]
