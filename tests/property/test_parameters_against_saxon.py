"""Parameters against Saxon, which has them as variables: generated conditions with generated values, together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.property.saxon_oracle import saxon
from tests.property.test_xpath_against_saxon import NUMBERS, PER_MESSAGE, TEXTS, message, operator, text
from twigcast import SubscriptionSet

SEED = int(os.environ.get("XPATH_SEED", "1"))
PAIRS = {"thorough": 10_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)

TRICKY = ("it's", '"', "$t", "' or '1' = '1", "a b")
"""Texts that would be something else in the text of a query."""


@dataclass(frozen=True)
class Asked:
    """A query, and the values of its parameters."""

    query: str
    params: dict[str, Any]


def _text(r: Random) -> str:
    return r.choice(TEXTS if r.random() < 0.8 else TRICKY)


def _number(r: Random) -> float:
    return r.choice([int(one) if "." not in one else float(one) for one in NUMBERS])


def _list(r: Random, one: Callable[[Random], Any]) -> list[Any]:
    return [one(r) for _ in range(r.randrange(1, 5))]


def _part(r: Random) -> str:
    whole = _text(r)
    first = r.randrange(len(whole) + 1)
    return whole[first : first + r.randrange(1, 5)]


CONSTRUCTS: dict[str, Callable[[Random], tuple[str, dict[str, Any]]]] = {
    "text": lambda r: (f"{r.choice(('@t', 'c', './/c'))} {r.choice(('=', '!='))} $p", {"p": _text(r)}),
    "list": lambda r: (f"{r.choice(('@t', 'c', './/c'))} {r.choice(('=', '!='))} $p", {"p": _list(r, _text)}),
    # Saxon 12 refuses to compare an attribute by order with a number in a variable, which XPath 3.1 allows.
    "number": lambda r: (f"@n + 0 {r.choice(('<', '<=', '=', '>=', '>'))} $p", {"p": _number(r)}),
    "numbers": lambda r: (f"{r.choice(('@n', 'v'))} {r.choice(('=', '!='))} $p", {"p": _list(r, _number)}),
    "truth": lambda r: (f"$p and @t = {_quoted(_text(r))} or not($p) and v", {"p": r.random() < 0.5}),
    "part": lambda r: (f"{r.choice(('contains', 'starts-with', 'ends-with'))}({text(r)}, $p)", {"p": _part(r)}),
    "parts": lambda r: (
        f"{r.choice(('some', 'every'))} $x in $p satisfies contains({text(r)}, $x)",
        {"p": _list(r, _part)},
    ),
    "folded": lambda r: (f"lower-case({text(r)}) = lower-case($p)", {"p": _text(r)}),
    "words": lambda r: (f"tokenize({text(r)}, '[ -]') = $p", {"p": _list(r, _part)}),
    "pattern": lambda r: (
        f"matches({text(r)}, $p, $f)",
        {"p": r.choice(("^st", "flood|storm", "[a-f]+-", "W.*g$", "o{2}")), "f": r.choice(("", "i", "s", "q"))},
    ),
    "two": lambda r: (
        f"@t = $p {r.choice(('and', 'or'))} v[1] + 0 > $q",
        {"p": _list(r, _text), "q": _number(r)},
    ),
    "count": lambda r: (f"count({r.choice(('c', 'v', '../a'))}) {operator(r)} $p", {"p": r.randrange(4)}),
    "date": lambda r: (
        f"xs:date('2026-11-30') {operator(r)} xs:date($p)",
        {"p": r.choice(("2026-11-30", "2026-12-01", "2026-11-29Z"))},
    ),
}


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _literal(value: object) -> str:
    """A value as Saxon reads it in an expression."""
    if isinstance(value, list):
        return f"({', '.join(map(_literal, value))})"
    if isinstance(value, bool):
        return f"{str(value).lower()}()"
    return _quoted(value) if isinstance(value, str) else str(value)


def asked(r: Random, construct: str) -> Asked:
    """A query with a condition of one kind."""
    condition, params = CONSTRUCTS[construct](r)
    # Saxon has the counts of an element's nodes as integers, and untyped values only in nodes.
    if r.random() < 0.2:
        condition = f"not({condition})"
    return Asked(f"{r.choice(('/r/a', '//a'))}[{condition}]", params)


def _bound(one: Asked) -> str:
    """The query as Saxon is asked: each parameter is a variable that is bound around it."""
    binding = "".join(f"let ${name} := {_literal(value)} return " for name, value in one.params.items())
    return f"exists({binding}{one.query})"


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_parameter_means_what_a_variable_means_to_saxon(construct: str) -> None:
    matched, r = 0, Random(f"{SEED} {construct}")
    for turn in range(PAIRS // PER_MESSAGE):
        all_asked = [asked(r, construct) for _ in range(PER_MESSAGE)]
        xml = message(r)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            together = SubscriptionSet(
                {"key": str(number), "query": one.query, "params": one.params} for number, one in enumerate(all_asked)
            )
            alone = []
            for one in all_asked[:3]:
                own = SubscriptionSet()
                own.add("q", one.query, params=one.params)
                alone.append(bool(own.match(xml)))
        found = set(together.match(xml).keys)
        answers = saxon().answers(xml, [_bound(one) for one in all_asked])
        wanted = {str(number) for number, holds in enumerate(answers) if holds}
        reported = f"XPATH_SEED={SEED}, turn {turn}, on {xml}"
        assert found == wanted, f"{reported}: {[all_asked[int(key)] for key in found ^ wanted]}"
        assert alone == answers[:3], f"{reported}: {all_asked[:3]}"
        matched += len(wanted)
    assert matched > PAIRS // 50
