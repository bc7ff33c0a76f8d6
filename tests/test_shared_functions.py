"""What is computed once for all queries that share it is decided as for one that stands alone."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator

import lxml.etree
import pytest

from twigcast import Limits, SubscriptionSet

Answer = Callable[[str, str, str], bool]

UPPER, LOWER = string.ascii_uppercase, string.ascii_lowercase

# The condition, with the number of the query in place of {n}, and what it says of the title, the link and that number.
FUNCTIONS: dict[str, tuple[str, Answer]] = {
    "lower-case": ("contains(lower-case(title), 'word{n}w')", lambda t, _, n: f"word{n}w" in t.lower()),
    "upper-case": ("upper-case(title) = 'WORD{n}W'", lambda t, _, n: t.upper() == f"WORD{n}W"),
    "translate": (
        f"contains(translate(title, '{UPPER}', '{LOWER}'), 'word{{n}}w')",
        lambda t, _, n: f"word{n}w" in t.lower(),
    ),
    "translate removes": (
        "contains(translate(title, 'Ww', ''), 'ord{n} ')",
        lambda t, _, n: f"ord{n} " in t.replace("W", "").replace("w", ""),
    ),
    "translate beyond ASCII": (
        "contains(translate(title, 'Wé', 'wX'), 'X{n} ')",
        lambda t, _, n: f"X{n} " in _accents(t),
    ),
    "normalize-space": (
        "starts-with(normalize-space(title), 'Word{n}w ')",
        lambda t, _, n: " ".join(t.split()).startswith(f"Word{n}w "),
    ),
    "replace": ("contains(replace(title, 'W', 'v'), 'vord{n}w')", lambda t, _, n: f"vord{n}w" in t.replace("W", "v")),
    "replace groups": (
        "contains(replace(title, '([0-9]+)w', '<$1>'), '<{n}>')",
        lambda t, _, n: f"<{n}>" in re.sub("([0-9]+)w", r"<\1>", t),
    ),
    "tokenize": ("tokenize(title, ' ') = 'Word{n}w'", lambda t, _, n: f"Word{n}w" in t.split(" ")),
    "tokenize words": ("tokenize(title) = 'Word{n}w'", lambda t, _, n: f"Word{n}w" in t.split()),
    "substring": ("contains(substring(title, 4, 30), 'Word{n}w')", lambda t, _, n: f"Word{n}w" in t[3:33]),
    "substring-after": (
        "contains(substring-after(title, ' '), 'Word{n}w')",
        lambda t, _, n: f"Word{n}w" in t.partition(" ")[2],
    ),
    "string-join": ("contains(string-join(*, '|'), '|{n}')", lambda t, link, n: f"|{n}" in f"{t}|{link}"),
    "concat": ("contains(concat(link, '!', title), '{n}!')", lambda t, link, n: f"{n}!" in f"{link}!{t}"),
    "in two": (
        "contains(lower-case(normalize-space(title)), ' word{n}w ')",
        lambda t, _, n: f" word{n}w " in " ".join(t.split()).lower(),
    ),
    "beside a value": (
        "link = '{n}' and tokenize(title, ' ') = tokenize('Word1w Word2w Word3w')",
        lambda t, link, n: link == n and bool({"Word1w", "Word2w", "Word3w"} & set(t.split(" "))),
    ),
}
IN_XPATH_1 = ["translate", "translate removes", "translate beyond ASCII", "normalize-space", "substring", "concat"]


OCCURRING = [0, *range(3, 1_500, 50)]
"""Few, so that most queries have to look at all texts."""


def _accents(title: str) -> str:
    return title.replace("W", "w").replace("é", "X")


def _items(count: int) -> list[tuple[str, str]]:
    r = random.Random(count)
    # Of each title a few words; some twice as far apart, some with letters that are not ASCII.
    words = [f"Word{number}w" for number in OCCURRING] + ["", "é7 ", "Éa"]
    return [(" ".join(r.choice(words) for _ in range(12)), str(r.randrange(1_500))) for _ in range(count)]


def _message(items: list[tuple[str, str]]) -> bytes:
    inside = "".join(f"<item><title>{title}</title><link>{link}</link></item>" for title, link in items)
    return f"<feed>{inside}</feed>".encode()


def _queries(kind: str, count: int) -> Iterator[tuple[str, str]]:
    condition = FUNCTIONS[kind][0]
    return ((str(n), f"//item[{condition.format(n=n)}]") for n in range(count))


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("size", [50, 2_000, 20_000])
def test_many_queries_with_a_function_are_decided_as_each_alone(kind: str, size: int) -> None:
    items = _items(size)
    message = _message(items)
    holds = FUNCTIONS[kind][1]
    visits = {}
    for count in (1, 10, 1_000):
        subscriptions = SubscriptionSet()
        assert not subscriptions.add_many(_queries(kind, count)).refused
        match = subscriptions.match(message)
        assert not match.undecided, f"{count} queries"
        # A few of many: numbers that occur, and that do not.
        asked = [str(n) for n in range(count) if n % 100 in (0, 3)]
        expected = {n for n in asked if any(holds(title, link, n) for title, link in items)}
        assert set(match.keys) & set(asked) == expected, f"{count} queries"
        visits[count] = match.visits
    # A function is computed once for all of them. Alone, a query may be tried twice.
    if kind != "beside a value":
        assert visits[1_000] <= 1.2 * visits[10] + 5_000


@pytest.mark.parametrize("kind", IN_XPATH_1)
def test_shared_functions_give_what_libxml2_says(kind: str) -> None:
    message = _message(_items(50))
    root = lxml.etree.fromstring(message)
    queries = dict(_queries(kind, 1_000))
    subscriptions = SubscriptionSet()
    subscriptions.add_many(queries.items())
    expected = {key for key, query in queries.items() if root.xpath(query)}
    assert expected
    assert set(subscriptions.match(message).keys) == expected


def test_one_query_pays_for_what_it_asks_alone_however_often() -> None:
    """A thousand alternatives are one query: beside it, cheap ones are decided, and it gets no more than others."""
    message = _message(_items(2_000))
    alternatives = " or ".join(f"lower-case(string-join(//title)) = 'x{n}'" for n in range(1_000))
    subscriptions = SubscriptionSet(limits=Limits(overruns_max=0))
    subscriptions.add("costly", f"//item[link[{alternatives}] or title/text()[{alternatives}]]")
    subscriptions.add_many((str(n), f"//item[link = '{n}']") for n in range(1_000))
    match = subscriptions.match(message)
    assert {failure.key for failure in match.undecided} <= {"costly"}


@pytest.mark.parametrize("count", [1, 1_000])
def test_functions_that_cost_more_than_a_message_may_are_undecided_however_many_share_them(count: int) -> None:
    message = _message(_items(2_000))
    subscriptions = SubscriptionSet(limits=Limits(overruns_max=0))
    # All titles, anew for each item.
    texts = "lower-case(concat(link, string-join(//title)))"
    subscriptions.add_many((str(n), f"//item[contains({texts}, 'x{n}')]") for n in range(count))
    subscriptions.add_many((f"cheap {n}", f"//item[lower-case(link) = '{n}']") for n in range(100))
    match = subscriptions.match(message)
    assert len(match.undecided) == count
    assert sum(key.startswith("cheap") for key in match.keys) > 50
    assert match.visits < 40_000_000
