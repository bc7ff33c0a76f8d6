"""The table of costs in the documentation tells how the cost of a query grows with the message."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twigcast import Limits, SubscriptionSet

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "query-costs.md"
ENOUGH = Limits(message_visits_max=10**12, group_visits_max=10**12, query_visits_max=10**12, depth_max=10_000)
"""For rows whose cost grows with the square of the message."""


def _rows() -> list[tuple[str, str, str]]:
    section = PAGE.read_text().split("### What grows how")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(.*)` \| (wide|deep) \| (.*) \|$", section, flags=re.MULTILINE)
    return [(query.replace("\\|", "|"), message, growth) for query, message, growth in rows]


def _wide(size: int) -> str:
    return "<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(size)) + "</r>"


def _deep(size: int) -> str:
    return "<r>" + "<a k='1'>" * size + "u" + "<x>1</x></a>" * size + "</r>"


def _visits(query: str, message: str, limits: Limits) -> int:
    match = SubscriptionSet({"q": query}, limits=limits).match(message)
    assert match.undecided == []
    return match.visits


def test_the_table_is_there() -> None:
    rows = _rows()
    assert len(rows) > 20
    assert {growth.split(",")[0] for _, _, growth in rows} == {"the message", "its square", "what has the value"}


@pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")
@pytest.mark.parametrize(("query", "message", "growth"), _rows())
def test_the_cost_grows_as_the_table_says(query: str, message: str, growth: str) -> None:
    make, size = (_wide, 1_200) if message == "wide" else (_deep, 900)
    if growth == "its square":
        small, large = (_visits(query, make(n), ENOUGH) for n in (size, 2 * size))
        assert large > 3 * small, "it costs less than the table says"
    else:
        # On small messages, asking each node may cost less than finding what is asked for all of them.
        limits = Limits(depth_max=10_000)
        small, large, larger = (_visits(query, make(n), limits) for n in (2 * size, 4 * size, 8 * size))
        # From some size on, a query takes one attempt more than the one beside all others; once only, so that the cost
        # grows faster than the message in one of the two steps at most.
        assert large <= 3.2 * small + 1_000 or larger <= 3.2 * large + 1_000
        if growth == "what has the value":
            assert large < size, "it is looked up"


@pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")
@pytest.mark.parametrize("query", [query for query, _, growth in _rows() if growth == "its square"])
def test_what_takes_the_square_ends_with_the_budget(query: str) -> None:
    message = _wide(6_000) if "translate" not in query else _deep(1_900).replace("<x>1", f"<x>{'1' * 100}")
    limits = Limits(message_visits_max=300_000)
    match = SubscriptionSet({"q": query}, limits=limits).match(message)
    assert [one.key for one in match.undecided] == ["q"]
    nodes = message.count("<") + message.count(">u") + message.count("</b>")
    assert match.visits < 300_000 + 140 * nodes + 40 * len(message) / 64
