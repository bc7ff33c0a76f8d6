"""Numbers with exponents: ``numbers="xs:double"`` in all forms of subscriptions, and a warning where it is missing."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from twigcast import SubscriptionSet, check
from twigcast.cli import app
from twigcast.errors import InvalidContext, QueryWarning
from twigcast.subscription_files import load_subscriptions

HEAVY = "//planet[@mass > 1000000]"
XML = b"<planet mass='5.97e24'/>"
ROWS: list[dict[str, Any]] = [
    {"key": "read", "query": HEAVY, "numbers": "xs:double"},
    {"key": "unread", "query": HEAVY, "numbers": None},
]


def quietly(subscriptions: SubscriptionSet, xml: bytes = XML) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        return subscriptions.match(xml).keys


def test_one_subscription_of_a_set_may_read_exponents() -> None:
    subscriptions = SubscriptionSet()
    subscriptions.add("read", HEAVY, numbers="xs:double")
    subscriptions.add("unread", HEAVY)
    assert quietly(subscriptions) == ["read"]
    subscriptions.replace("read", HEAVY)
    subscriptions.replace("unread", HEAVY, numbers="xs:double")
    assert quietly(subscriptions) == ["unread"]
    assert (subscriptions["unread"].dialect, subscriptions["read"].dialect) == ("doubles", "xpath")


def test_numbers_are_refused_where_they_cannot_be_read_so() -> None:
    with pytest.raises(InvalidContext, match="numbers must be"):
        SubscriptionSet().add("q", HEAVY, numbers="double")  # type: ignore[arg-type]
    with pytest.raises(InvalidContext, match="xs:double"):
        SubscriptionSet(dialect="legacy").add("q", HEAVY, numbers="xs:double")
    [refused] = SubscriptionSet().add_many([{"key": "q", "query": HEAVY, "numbers": "float"}]).refused
    assert isinstance(refused.error, InvalidContext)
    with pytest.raises(InvalidContext):
        check(HEAVY, dialect="legacy", numbers="xs:double")


def _csv(folder: Path) -> SubscriptionSet:
    file = folder / "s.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["key", "query", "numbers"])
        writer.writerows([row["key"], row["query"], row["numbers"] or ""] for row in ROWS)
    return load_subscriptions(file)[0]


def _json(folder: Path) -> SubscriptionSet:
    file = folder / "s.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return load_subscriptions(file)[0]


def _parquet(folder: Path) -> SubscriptionSet:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "s.parquet")
    return load_subscriptions(folder / "s.parquet")[0]


@pytest.mark.parametrize(
    "made",
    [_csv, _json, _parquet, lambda _: SubscriptionSet(ROWS), lambda _: SubscriptionSet(pa.Table.from_pylist(ROWS))],
)
def test_each_row_says_how_its_numbers_are_read(made: Callable[[Path], SubscriptionSet], tmp_path: Path) -> None:
    assert quietly(made(tmp_path)) == ["read"]


def test_checks_and_the_command_line_take_it(tmp_path: Path) -> None:
    assert "xs:double" in check(HEAVY, numbers="xs:double").normal_form
    assert "xs:double" not in check(HEAVY).normal_form
    message = tmp_path / "m.xml"
    message.write_bytes(XML)
    for command in (["match", "-q", HEAVY], ["deliver", "-o", "-", "-q", HEAVY]):
        read = CliRunner().invoke(app, [*command, "--numbers", "xs:double", str(message)])
        assert read.exit_code == 0
        assert len(read.stdout.splitlines()) == 1
        unread = CliRunner().invoke(app, [*command, str(message)])
        assert unread.stdout == ""
        assert "'5.97e24' at /planet/@mass" in unread.stderr
    explained = CliRunner().invoke(app, ["explain", "--json", "--numbers", "xs:double", "-q", HEAVY, str(message)])
    assert json.loads(explained.stdout.splitlines()[0])["matches"] is True
    checked = CliRunner().invoke(app, ["check", "--json", "--numbers", "xs:double", HEAVY])
    assert "xs:double" in checked.stdout
    wrong = ["match", "--dialect", "legacy", "--numbers", "xs:double", "-q", "//a", str(message)]
    assert CliRunner().invoke(app, wrong).exit_code == 2


QUERIES = [
    ("//p[@n > 5]", "<r><p n='1e3'/></r>", "/r/p/@n"),
    ("//p[@n = 5]", "<r><p n='1E3'/></r>", "/r/p/@n"),
    ("//p[. < 5]", "<r><p>1e-3</p></r>", "/r/p"),
    ("/r[p >= 5 and p < 9]", "<r><p> -1.5e+3 </p></r>", "/r/p"),
    ("//p[text() != 5]", "<r><p>1e3</p></r>", "/r/p"),
    ("sum(//p) > 3", "<r><p>1e3</p></r>", "/r/p"),
    ("//p[@n * 2 > @m]", "<r><p n='1e3' m='1'/></r>", "/r/p/@n"),
    ("for $p in //p where $p/@n > 5 return <x>{ $p }</x>", "<r><p n='1e3'/></r>", "/r/p/@n"),
]


@pytest.mark.parametrize(("query", "xml", "path"), QUERIES)
@pytest.mark.parametrize("how", ["match", "deliver", "batch"])
def test_a_comparison_that_meets_an_exponent_warns_once_a_path(query: str, xml: str, path: str, how: str) -> None:
    subscriptions = SubscriptionSet([("q", query)])

    def ask() -> None:
        if how == "match":
            subscriptions.match(xml)
        elif how == "deliver":
            subscriptions.deliver(xml)
        else:
            subscriptions.match_batch(pa.array([xml.encode()] * 3))

    with pytest.warns(QueryWarning, match="XPath 1.0") as found:
        ask()
    assert [f" at {path} " in str(one.message) for one in found] == [True]
    count = subscriptions.statistics().unread_numbers
    assert count > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask()
    assert subscriptions.statistics().unread_numbers > count


@pytest.mark.parametrize(
    ("query", "xml"),
    [
        ("//p[@n = '1e3']", "<r><p n='1e3'/></r>"),
        ("//p[@n > xs:double('5')]", "<r><p n='1e3'/></r>"),
        ("//p[@n > 5]", "<r><p n='east'/><p n='1e'/><p n='1e3x'/><p n='e3'/><p n='12'/><p/></r>"),
        ("//p[@n > 5]", "<r m='1e3'>1e3</r>"),
    ],
)
def test_nothing_is_said_where_nothing_is_misread(query: str, xml: str) -> None:
    subscriptions = SubscriptionSet([("q", query)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        subscriptions.match(xml)
        subscriptions.deliver(xml)
    assert subscriptions.statistics().unread_numbers == 0


def test_many_paths_are_told_up_to_a_bound() -> None:
    subscriptions = SubscriptionSet([("q", "//@n[. > 5]")])
    xml = "<r>" + "".join(f"<p{i} n='{i}e3'/>" for i in range(100)) + "</r>"
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(300):
            subscriptions.match(xml)
    assert 1 <= len(found) <= 16
    assert subscriptions.statistics().unread_numbers >= 300
