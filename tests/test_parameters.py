"""Parameters of queries: values that subscriptions give beside the text."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from twigcast import Subscription, SubscriptionSet, check, explain
from twigcast.errors import InvalidContext, QuerySyntaxError, QueryWarning, TwigcastError, UnsupportedQuery
from twigcast.registration import Params
from twigcast.subscription_files import load_subscriptions

SEED = int(os.environ.get("PARAMETERS_SEED", "1"))
QUERY = "//a[@k = $k and @n >= $n]"
ALERT = "<r><a k='storm' n='3'/><a k='flood' n='1'/></r>"

TEXTS = (
    "storm",
    "",
    "it's",
    'a "b"',
    "'] or //a['",
    "$k",
    "1",
    "&amp;",
    "{x}",
    "(: c :)",
    "]]>",
    "ﬁ",
    "' or ''='",
    "\n",
)
NUMBERS = (0, 1, -2, 3.5, 12, 100)


def matches(query: str, message: str, **params: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        return bool(SubscriptionSet([Subscription("q", query, params=params)]).match(message))


def test_one_text_has_other_values_in_each_subscription() -> None:
    subscriptions = SubscriptionSet()
    subscriptions.add("one", QUERY, params={"k": "storm", "n": 2})
    subscriptions.add("other", QUERY, params={"k": "flood", "n": 2})
    report = subscriptions.add_many(
        [
            Subscription("list", QUERY, params={"k": ("rain", "flood"), "n": 1}),
            {"key": "record", "query": QUERY, "params": {"k": "storm", "n": 3}},
            ("tuple", QUERY, None, None, None, {"k": "storm", "n": 4}),
            ("plain", "//a"),
        ]
    )
    assert report.ok
    assert sorted(subscriptions.match(ALERT).keys) == ["list", "one", "plain", "record"]
    subscriptions.replace("other", QUERY, params={"k": "flood", "n": 1})
    assert "other" in subscriptions.match(ALERT).keys
    assert subscriptions["list"].params == {"k": ["rain", "flood"], "n": 1}
    assert subscriptions.describe("one").route == check(QUERY.replace("$k", "'storm'").replace("$n", "2")).route


def test_values_are_values() -> None:
    """What a value holds is no part of the query: libxml2, which has variables, finds the same."""
    random = Random(SEED)
    queries = (
        "//a[@k = $v]",
        "//a[contains(@k, $v)]",
        "//a[starts-with(., $v) or @n > $v]",
        "//a[concat(@k, $v) = $v]",
    )
    found = 0
    for _ in range(300):
        value: Any = random.choice((*TEXTS, *NUMBERS, True))
        root = etree.Element("r")
        for _ in range(3):
            one = etree.SubElement(root, "a", k=random.choice(TEXTS).replace("\n", " "), n=str(random.choice(NUMBERS)))
            one.text = random.choice(TEXTS)
        query, message = random.choice(queries), etree.tostring(root, encoding="unicode")
        expected = bool(root.xpath(query, v=value))
        assert matches(query, message, v=value) == expected, (SEED, query, value, message)
        found += expected
    assert found > 20


def test_a_list_is_each_of_its_values() -> None:
    assert matches("//a[@k = $words]", ALERT, words=["x", "flood"])
    assert matches("//a[@k = ($words, 'storm')]", ALERT, words=[])
    assert not matches("//a[@k = $words]", ALERT, words=[])
    assert matches("//a[some $w in $words satisfies contains(@k, $w)]", ALERT, words=("q", "loo"))
    assert not matches("//a[every $w in $words satisfies contains(@k, $w)]", ALERT, words=("q", "loo"))
    assert matches("//a[matches(@k, $pattern)]", ALERT, pattern="^st.*m$")
    with pytest.raises(UnsupportedQuery, match="a list can only be compared"):
        matches("//a[contains(@k, $words)]", ALERT, words=["x"])


def test_results_have_parameters() -> None:
    subscriptions = SubscriptionSet()
    query = "for $a in //a where $a/@k = $kind return <hit who='{ $name }'>{ $a }</hit>"
    subscriptions.add("q", query, params={"kind": "storm", "name": '<&"{Ann}'})
    assert [one.payload for one in subscriptions.deliver(ALERT)] == [
        b"<hit who=\"&lt;&amp;&quot;{Ann}\"><a k='storm' n='3'/></hit>"
    ]
    # A variable that the query binds comes before a parameter, which then is not used.
    with pytest.raises(QuerySyntaxError, match=r"does not use the parameter \$a"):
        subscriptions.add("r", "for $a in //a return $a", params={"a": 1})


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("//a[@k = $k]", {}, r"the parameter \$k has no value \(none is given\)"),
    ("//a[@k = $k]", {"n": 1}, r"the parameter \$k has no value \(given: \$n\)"),
    ("//a[@k = $k]", {"k": 1, "n": 1, "m": 2}, r"does not use the parameter \$m and \$n"),
    ("/a/b", {"k": 1}, r"does not use the parameter \$k"),
    ("//a[@k = $k]", {"$k": 1}, r"written without \$: 'k' for '\$k'"),
    ("//a[@k = $k]", {"k k": 1}, "is no name"),
    ("//a[@k = $k]", {"doc": 1}, "stands for the message"),
    ("//a[@k = $k]", {"k": float("nan")}, "give a finite number"),
    ("//a[@k = $k]", {"k": 2**53 + 1}, "no double holds 9007199254740993 exactly"),
    ("//a[@k = $k]", {"k": "\ud800"}, "half of a"),
]


@pytest.mark.parametrize(("query", "params", "reason"), REFUSED)
def test_what_cannot_be_used_is_refused_by_name(query: str, params: dict[str, Any], reason: str) -> None:
    subscriptions = SubscriptionSet()
    with pytest.raises(TwigcastError, match=reason):
        subscriptions.add("q", query, params=params)
    [refused] = subscriptions.add_many([Subscription("q", query, params=params)]).refused
    assert refused.key == "q"
    assert len(subscriptions) == 0


@pytest.mark.parametrize("value", [None, object(), {"a": 1}, [["x"]], b"x", [None]])
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="the value of the parameter 'k' must be str, int, float, bool or a list"):
        SubscriptionSet().add("q", QUERY, params={"k": value, "n": 1})


def test_they_are_kept_wherever_sets_go(tmp_path: Path) -> None:
    subscriptions = SubscriptionSet()
    params: Params = {"k": ["storm", "x"], "n": 2.5}
    subscriptions.add("q", QUERY, params=params)
    subscriptions.save(tmp_path / "kept")
    for copy in (pickle.loads(pickle.dumps(subscriptions)), SubscriptionSet.load(tmp_path / "kept")):
        assert copy["q"].params == params
        assert copy.match(ALERT).keys == ["q"]
    assert len(pickle.loads(pickle.dumps(subscriptions.match(ALERT))).nodes("q")) == 1
    assert explain(QUERY, ALERT, params=params).matches
    assert subscriptions.explain(ALERT, "q").matches
    assert "'storm'" in check(QUERY, params=params).normal_form


def test_files_and_tables_have_a_column_of_them(tmp_path: Path) -> None:
    params = {"k": "storm", "n": 2}
    rows = [{"key": "q", "query": QUERY, "params": params}]
    (tmp_path / "s.jsonl").write_text(json.dumps(rows[0]) + "\n")
    (tmp_path / "s.csv").write_text(
        f'key;query;params\nq;{QUERY};"{json.dumps(params).replace(chr(34), chr(34) * 2)}"\n'
    )
    for name in ("s.jsonl", "s.csv"):
        loaded, refused = load_subscriptions(tmp_path / name)
        assert (loaded["q"].params, refused) == (params, [])
    table = pa.table({"key": ["q", "r"], "query": [QUERY, "//a"], "params": [params, None]})
    subscriptions = SubscriptionSet(table)
    assert (subscriptions["q"].params, subscriptions["r"].params) == (params, {})
    (tmp_path / "bad.csv").write_text("key;query;params\nq;//a[@k = $k];k=storm\n")
    _, [row] = load_subscriptions(tmp_path / "bad.csv")
    assert "params must be a JSON object" in str(row)


def test_bad_parameters_are_told_from_bad_namespaces() -> None:
    with pytest.raises(InvalidContext):
        check(QUERY, params={"": 1})
