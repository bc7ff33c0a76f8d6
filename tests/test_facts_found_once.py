"""What conditions ask of many elements is found once: the answers are those of libxml2, on random messages."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import lxml.etree
import pytest

from tests.seeds import printed_seed
from twigcast import Limits, SubscriptionSet

ENOUGH = Limits(message_visits_max=10**9, group_visits_max=10**9, query_visits_max=10**9)

AXES = [
    "following::",
    "preceding::",
    "following-sibling::",
    "preceding-sibling::",
    "descendant::",
    "descendant-or-self::",
    ".//",
]
TAILS = ["a", "b", "*", "a/@k", "a/b", "*/@k", "b[@k]", "a[b]/b", "a/.", "*/self::b/@k"]


def any_number(randomness: random.Random) -> str:
    """Returns text that is mostly a whole number."""
    kind = randomness.random()
    if kind < 0.75:
        return str(randomness.randint(-3, 9))
    return randomness.choice(["", "x", "1.5", "0.25", "-0", " 4 ", "NaN", "é2"])


def message(randomness: random.Random, numbers: Callable[[random.Random], str]) -> bytes:
    """Returns a message of nested and neighbouring elements."""
    identities = itertools.count()

    def element(depth: int) -> str:
        name = randomness.choice("aab")
        key = f" k='{numbers(randomness)}'" if randomness.random() < 0.5 else ""
        identity = f" xml:id='i{next(identities)}'" if randomness.random() < 0.3 else ""
        content = numbers(randomness) if randomness.random() < 0.6 else ""
        children = "".join(element(depth + 1) for _ in range(randomness.choice([0, 0, 1, 2, 3]) if depth < 9 else 0))
        return f"<{name}{key}{identity}>{content}{children}</{name}>"

    return f"<r>{''.join(element(0) for _ in range(randomness.randint(40, 60)))}</r>".encode()


def positions(randomness: random.Random) -> str:
    """Returns a predicate about positions, mostly one that repeats."""
    period, rest = randomness.choice([2, 3, 3, 4, 7, 70]), randomness.randrange(3)
    return randomness.choice(
        [
            f"position() mod {period} = {rest}",
            f"{rest} = position() mod {period}",
            f"position() mod {period} != {rest} and @k",
            f"not(position() mod {period} = {rest}) and position() > {rest}",
            f"position() mod {period} = {rest} or position() mod 2 = 1",
            f"(position() - {rest}) mod {period} < 1",
            f"2 * position() mod {period} = {rest}",
            f"position() > {rest}",
            f"position() < {period} or position() = {rest}",
            f"position() mod {period} and b",
            f"@k][position() mod {period} = {rest}",
            f"position() mod {period} = {rest}][b or @k",
            f"position() mod {period} = {rest}][last()",
            f"position() mod {period} = {rest}][1",
            f"@k][{rest + 1}",
            f"@k][last()][{rest + 1}",
            f"position() mod last() = {rest}",
            f"position() = last() - {rest}",
            f"position() mod @k = {rest}",
        ]
    )


ALONG = [*AXES[:-1], "ancestor::", "ancestor-or-self::"]


def along_axes(randomness: random.Random) -> str:
    """Returns a condition on what lies along an axis of each element, with positions, by order or by equality."""
    path = randomness.choice(ALONG) + randomness.choice("ab*")
    if randomness.random() < 0.7:
        path += f"[{positions(randomness)}]"
    path += randomness.choice(["", "", "/@k", "/b", "/@none", "//@k", "/b[1]", "/.."])
    if randomness.random() < 0.2:
        path = f"({randomness.choice(ALONG)}{randomness.choice('ab*')})[{positions(randomness)}]"
        path += randomness.choice(["", "/@k", "/b"])
    other = randomness.choice(["@k", ".", "b", "b/@k", "*", randomness.choice(ALONG) + "b/@k"])
    op = randomness.choice(["=", "!=", "<", "<=", ">", ">="])
    number = randomness.randint(-2, 9)
    return randomness.choice(
        [
            path,
            f"not({path})",
            f"{path} {op} {other}",
            f"{other} {op} {path}",
            f"{path} {op} number({other}) + {number}",
            f"{path} {op} string({other})",
            f"{path} {op} {number}",
            f"{path} {op} '{number}'",
            f"count({path}) {op} {number}",
            f"sum({path}) {op} {number}",
            f"string({path}) {op} {other}",
            f"number({path}) {op} {number}",
            f"({path})[{randomness.choice(['1', 'last()', 'position() = 1'])}] {op} {other}",
            f"({path})[@k][{randomness.choice(['1', 'last()', 'last()][b'])}]",
            f"({path} | {randomness.choice(ALONG)}a)[@k][{randomness.choice(['1', 'last()'])}] {op} {number}",
            f"concat({path}, 'x') = concat({other}, 'x')",
        ]
    )


def condition(randomness: random.Random) -> str:
    """Returns a condition that asks of each element what is found once."""
    if randomness.random() < 0.6:
        return along_axes(randomness)
    along = randomness.choice(AXES) + randomness.choice(TAILS)
    other = randomness.choice(AXES) + randomness.choice(["a", "b", "*"])
    position = randomness.choice(["last()", "position() = last()", "last()][1", "last()][@k"])
    number = randomness.randint(-2, 12)
    start = randomness.choice(["@k", ".", "2", "0", "-1", "1.5", "1 div 0", "0 div 0", "-1 div 0", "position()"])
    length = randomness.choice(["", ", 1", ", 3", ", @k", ", 1 div 0", ", -1", ", 2.5"])
    text = randomness.choice(["/", ".", "..", "/r/a[1]", "//b", "'abcdé'", "@k"])
    return randomness.choice(
        [
            f"sum({along}) = {number}",
            f"sum({along}) > sum({other})",
            f"sum({along}) != sum({along})",
            f"({other} | {randomness.choice(AXES)}b | @k)[{position}]",
            f"({other})[{position}] = '{number}'",
            f"string-length(substring({text}, {start}{length})) = {number}",
            f"contains(/, substring({text}, {start}{length}))",
            f"id(@k) or id(concat('i', {number % 20}))/@k = @k",
            "id(concat(' i', string-length(.), ' i', count(*), ' x'))",
            f"translate(/, '12', '2') = . or contains(translate(/, '1', ''), concat(@k, {number}))",
            "starts-with(normalize-space(/), normalize-space(.))",
            f"substring-before(/, {number}) = substring-before(., {number})",
            "concat(string(/r/a[2]), 'x') = concat(., 'x')",
        ]
    )


@pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")
@pytest.mark.slow
@pytest.mark.parametrize("numbers", [any_number, lambda randomness: str(randomness.randint(0, 9))])
def test_answers_are_those_of_libxml2(numbers: Callable[[random.Random], str]) -> None:
    seed = printed_seed()
    randomness = random.Random(seed)
    for _ in range(3):
        text = message(randomness, numbers)
        tree = lxml.etree.fromstring(text)
        subscriptions = SubscriptionSet(limits=ENOUGH)
        conditions = {f"//{randomness.choice('ab*')}[{condition(randomness)}]" for _ in range(25)}
        expected: dict[str, int] = {}
        for query in conditions:
            count = int(tree.xpath(f"count({query})"))
            expected |= {f"{query} {count}": True, f"{query} {count + 1}": False}
            subscriptions.add(f"{query} {count}", f"count({query}) = {count}")
            subscriptions.add(f"{query} {count + 1}", f"count({query}) = {count + 1}")
        match = subscriptions.match(text)
        assert match.undecided == []
        assert {key: key in match for key in expected} == expected, text.decode()
