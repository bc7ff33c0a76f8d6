"""SubscriptionSet: the population, answers about one message, snapshots, threads."""

import os
import pickle
import random
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twigcast import Limits, Subscription, SubscriptionSet, check
from twigcast.errors import (
    DuplicateKey,
    InvalidKey,
    MalformedMessage,
    MessageLimitExceeded,
    QueryLimitExceeded,
    QuerySyntaxError,
    QueryWarning,
    SnapshotError,
    SourceError,
    UndeclaredPrefix,
    UnknownKey,
)

CAP = "urn:oasis:names:tc:emergency:cap:1.2"
ALERT = f"""<?xml version="1.0"?>
<alert xmlns="{CAP}"><info><event>Flood</event><severity>Severe</severity></info>
  <info><event>Wind</event></info></alert>"""


@pytest.fixture
def subs() -> SubscriptionSet:
    subs = SubscriptionSet(namespaces={"cap": CAP})
    subs.add("flood-desk", "//cap:info[cap:event='Flood'][cap:severity='Severe']")
    subs.add("all-alerts", "/cap:alert")
    subs.add("quakes", "//cap:event[. = 'Earthquake']")
    return subs


# The population.


def test_a_population_is_a_collection_of_keys(subs: SubscriptionSet) -> None:
    assert len(subs) == 3
    assert set(subs) == {"flood-desk", "all-alerts", "quakes"} == set(subs.keys())
    assert "quakes" in subs
    assert "tornados" not in subs
    assert 7 not in subs
    assert repr(subs) == "<SubscriptionSet of 3>"
    assert SubscriptionSet(), "an empty set is still a set, not nothing"


def test_a_subscription_can_be_looked_up(subs: SubscriptionSet) -> None:
    assert subs["all-alerts"] == Subscription("all-alerts", "/cap:alert", {"cap": CAP}, "xpath")
    with pytest.raises(UnknownKey):
        subs["tornados"]


def test_keys_are_unique(subs: SubscriptionSet) -> None:
    with pytest.raises(DuplicateKey):
        subs.add("quakes", "//cap:event")
    assert subs["quakes"].query == "//cap:event[. = 'Earthquake']"


def test_replace_changes_the_query(subs: SubscriptionSet) -> None:
    subs.replace("quakes", "//cap:event[. = 'Wind']")
    assert "quakes" in subs.match(ALERT)
    assert len(subs) == 3
    subs.replace("new", "/cap:alert")
    assert len(subs) == 4


def test_replace_keeps_the_old_query_where_the_new_one_is_refused(subs: SubscriptionSet) -> None:
    with pytest.raises(QuerySyntaxError):
        subs.replace("flood-desk", "//cap:info[")
    assert "flood-desk" in subs.match(ALERT)


def test_remove(subs: SubscriptionSet) -> None:
    subs.remove("all-alerts")
    assert subs.match(ALERT).keys == ["flood-desk"]
    with pytest.raises(UnknownKey):
        subs.remove("all-alerts")
    assert subs.discard("all-alerts") is False
    assert subs.discard("flood-desk") is True
    assert len(subs) == 1


def test_undeclared_prefixes_are_refused(subs: SubscriptionSet) -> None:
    with pytest.raises(UndeclaredPrefix) as caught:
        subs.add("x", "//nitf:p")
    assert caught.value.prefix == "nitf"
    assert "x" not in subs


def test_the_legacy_dialect() -> None:
    subs = SubscriptionSet(dialect="legacy")
    subs.add("k", "/a/[b<>1]")
    assert subs.match("<a><b>2</b></a>").keys == ["k"]
    with pytest.raises(QuerySyntaxError):
        SubscriptionSet().add("k", "/a/[b<>1]")


def test_queries_that_look_wrong_warn() -> None:
    with pytest.warns(QueryWarning, match="k: no message can match"):
        SubscriptionSet().add("k", "false()")


def test_a_constructor_warns_as_add_does() -> None:
    with pytest.warns(QueryWarning) as found:
        SubscriptionSet({"fine": "/a", "never": "false()", "all": "/*"})
    assert [str(one.message) for one in found] == [
        "never: no message can match this query",
        "all: every message matches this query",
    ]
    assert {one.filename for one in found} == {__file__}
    with pytest.warns(QueryWarning) as found:
        SubscriptionSet((str(number), "false()") for number in range(5_000))
    assert len(found) == 11
    assert str(found[-1].message).startswith("4,990 more subscriptions look wrong")


def test_queries_without_a_cover_warn_when_they_are_added() -> None:
    without = {"position": "//a[2]/b", "pair": "//a[b != c]", "absent": "//a[not(@k)][2]"}
    subs = SubscriptionSet()
    for key, query in without.items():
        with pytest.warns(QueryWarning, match=rf"{key}: no value leads to this query.*candidate.*\[@kind = 'x'\]"):
            subs.add(key, query)
        with pytest.warns(QueryWarning, match=rf"{key}: no value leads"):
            subs.replace(key, query)
        assert "no value leads" in check(query).warnings[0]
        assert "no value leads" in subs.describe(key).warnings[0]
        assert (check(query).route, check(query).cover) == ("candidate", None)
    report = subs.add_many([*((f"more {key}", query) for key, query in without.items()), ("keyed", "//a[@k = 'x']")])
    assert [one.index for one in report.warnings] == [0, 1, 2]
    assert all("no value leads" in one.text for one in report.warnings)


@pytest.mark.parametrize(
    ("query", "excluded"),
    [
        ("//a[. != 'x']", ". != 'x'"),
        ("//a[@k != 'x' and @k != 'w']/b[2]", "@k != 'w' and @k != 'x'"),
        ("//a[not(b = 'x' or b = 'w')]", "not(b = 'w' or b = 'x')"),
        ("//a[c][not(@n = 5)]", "not(@n = 5)"),
        ("//a[b != 0][2]", "b != 0"),
    ],
)
def test_what_is_excluded_is_a_cover(query: str, excluded: str) -> None:
    checked = check(query)
    assert checked.route == "keyed"
    assert excluded in (checked.cover or ""), checked.cover
    assert not checked.warnings


def test_describe_names_the_cover_that_is_in_use() -> None:
    """It is the rarest value of the population, and that may be another one than the query would have alone."""
    query = "/r/a[b = 'one'][c = 'two']"
    alone = check(query).cover
    assert alone is not None
    for element, value in (("b", "one"), ("c", "two")):
        subs = SubscriptionSet({"q": "/r/x"})
        subs.add_many((f"{n}", f"/r/a[{element} = '{value}'][d = '{n}']") for n in range(300))
        subs.replace("q", query)
        cover = subs.describe("q").cover
        assert cover is not None
        rare = "/r/a[c = 'two']" if element == "b" else "/r/a[b = 'one']"
        assert rare in cover, cover
    attributes = SubscriptionSet({"q": "/r/a[@k = 'x']/b"})
    assert attributes.describe("q").cover == "looked up by /r/a[@k = 'x']"


def test_add_many_returns_the_refused_with_their_errors() -> None:
    subs = SubscriptionSet()
    refused = subs.add_many(
        [
            ("a", "/a"),
            ("b", "//b["),
            ("c", "/p:c", {"p": "urn:p"}),
            ("a", "/a/a"),
            Subscription("d", "/d/[e]", dialect="legacy"),
            Subscription("f", "/d/[e]"),
        ]
    ).refused
    assert set(subs) == {"a", "c", "d"}
    assert [(r.key, r.index, type(r.error)) for r in refused] == [
        ("b", 1, QuerySyntaxError),
        ("a", 3, DuplicateKey),
        ("f", 5, QuerySyntaxError),
    ]


def test_strings_that_are_no_text_are_refused() -> None:
    subs = SubscriptionSet()
    refused = subs.add_many(
        [("a", "/a"), ("b", "/\ud800"), ("\udcff", "/c"), ("d", "/d"), ("e", "/e", {"p": "\ud800"})]
    ).refused
    assert set(subs) == {"a", "d"}
    assert [(r.index, type(r.error)) for r in refused] == [
        (1, QuerySyntaxError),
        (2, InvalidKey),
        (4, QuerySyntaxError),
    ]
    with pytest.raises(QuerySyntaxError) as caught:
        subs.add("b", "/\ud800")
    assert caught.value.column == 2
    with pytest.raises(InvalidKey):
        subs.add("\udcff", "/a")
    with pytest.raises(QuerySyntaxError):
        check("/\ud800")


def test_add_many_returns_what_is_no_text_among_pairs() -> None:
    subs = SubscriptionSet()
    refused = subs.add_many([("a", "/a"), ("b", "/\ud800"), ("\udcff", "/c"), ("d", "/d"), ("a", "/e")]).refused
    assert [(entry.index, type(entry.error)) for entry in refused] == [
        (1, QuerySyntaxError),
        (2, InvalidKey),
        (4, DuplicateKey),
    ]
    assert (sorted(subs), subs["a"].query) == (["a", "d"], "/a")


def test_add_many_can_replace() -> None:
    subs = SubscriptionSet([("a", "/a"), ("b", "/b")])
    subs.add_many([("a", "/x"), ("c", "/x")], replace=True).raise_if_refused()
    assert set(subs.match("<x/>")) == {"a", "c"}


def test_add_many_takes_any_number() -> None:
    subs = SubscriptionSet()
    refused = subs.add_many((str(n), f"/r/e{n}" if n != 45_000 else "/r/") for n in range(50_000)).refused
    assert [r.index for r in refused] == [45_000]
    assert len(subs) == 49_999
    assert subs.match("<r><e49999/></r>").keys == ["49999"]


def test_a_set_is_not_made_of_refused_subscriptions() -> None:
    with pytest.raises(QuerySyntaxError):
        SubscriptionSet([("a", "/a"), ("b", "/[")])


# Messages.


def test_match_tells_the_keys(subs: SubscriptionSet) -> None:
    match = subs.match(ALERT)
    assert set(match.keys) == {"flood-desk", "all-alerts"}
    assert set(match) == set(match.keys)
    assert match
    assert len(match) == 2
    assert "flood-desk" in match
    assert "quakes" not in match
    assert match.undecided == []
    assert not subs.match("<nothing/>")


def test_match_keeps_its_answer_when_the_population_changes(subs: SubscriptionSet) -> None:
    match = subs.match(ALERT)
    subs.remove("flood-desk")
    subs.add("late", "/cap:alert")
    assert set(match.keys) == {"flood-desk", "all-alerts"}


def test_selected_nodes_with_their_places(subs: SubscriptionSet) -> None:
    match = subs.match(ALERT)
    (node,) = match.nodes("flood-desk")
    assert (node.kind, node.name, node.line) == ("element", "info", 2)
    assert node.column == ALERT.splitlines()[1].index("<info>") + 1
    assert node.markup == b"<info><event>Flood</event><severity>Severe</severity></info>"
    assert match.nodes("quakes") == []
    with pytest.raises(UnknownKey):
        match.nodes("tornados")
    assert match.node_counts() == {"flood-desk": 1, "all-alerts": 1}


def test_a_plain_match_delivers_the_message_itself(subs: SubscriptionSet) -> None:
    deliveries = subs.deliver(ALERT)
    assert {d.key for d in deliveries} == {"flood-desk", "all-alerts"}
    assert all(d.payload == ALERT.encode() and not d.rewritten for d in deliveries)
    assert deliveries.undecided == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_messages_as_bytes(subs: SubscriptionSet, kind: type) -> None:
    assert subs.match(kind(ALERT.encode()))


def test_a_message_as_a_path(subs: SubscriptionSet, tmp_path: Path) -> None:
    path = tmp_path / "alert.xml"
    path.write_text(ALERT)
    assert subs.match(path)
    with pytest.raises(SourceError):
        subs.match(tmp_path / "missing.xml")


def test_a_message_as_text_has_no_encoding() -> None:
    subs = SubscriptionSet([("k", "//p[. = 'café']")])
    assert subs.match("<?xml version='1.0' encoding='UTF-16' standalone='yes'?>\n<p>café</p>")
    (node,) = subs.nodes("<?xml version='1.0' encoding='iso-8859-1'?><p>café</p>", "k")
    assert node.column == 44, "places are those of the text that was given"


def test_text_that_is_no_text_is_malformed() -> None:
    with pytest.raises(MalformedMessage) as caught:
        SubscriptionSet().match("<p>\n ab\ud800</p>")
    assert (caught.value.line, caught.value.column) == (2, 4)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1", "cp1252"])
def test_messages_in_other_encodings(encoding: str) -> None:
    subs = SubscriptionSet([("k", "//p[. = 'café']")])
    name = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    message = f"<?xml version='1.0' encoding='{name}'?><p>café</p>".encode(encoding)
    match = subs.match(message)
    assert match.keys == ["k"]
    (node,) = match.nodes("k")
    assert node.markup.decode() == "<p>café</p>"
    assert match.node_counts() == {"k": 1}
    assert subs.deliver(message)[0].payload == message, "what is forwarded is the message as it came"


def test_malformed_messages_are_rejected_with_the_place(subs: SubscriptionSet) -> None:
    with pytest.raises(MalformedMessage) as caught:
        subs.match(b"<a>\n  <b></c></a>")
    assert caught.value.line == 2
    for question in (subs.deliver, subs.node_counts):
        with pytest.raises(MalformedMessage):
            question(b"<a>")


def test_limits_hold() -> None:
    subs = SubscriptionSet(limits=Limits(depth_max=10, query_steps_max=5, message_bytes_max=1_000))
    subs.add("k", "//a")
    assert subs.limits.depth_max == 10
    with pytest.raises(MessageLimitExceeded, match="depth_max"):
        subs.match("<a>" * 20 + "</a>" * 20)
    with pytest.raises(MessageLimitExceeded, match="message_bytes_max"):
        subs.match("<a>" + " " * 2_000 + "</a>")
    with pytest.raises(QueryLimitExceeded, match="query_steps_max"):
        subs.add("l", "/a/a/a/a/a/a/a/a")
    with pytest.raises(MessageLimitExceeded):
        subs.match(("<a>" + "x" * 600 + "</a>").encode("utf-16"))


def test_describe_and_statistics(subs: SubscriptionSet) -> None:
    query = subs["flood-desk"].query
    alone = check(query, namespaces={"cap": CAP})
    assert subs.describe("flood-desk") == replace(alone, cover=f"{alone.cover}, expected in fewer than 1 message of 10")
    with pytest.raises(UnknownKey):
        subs.describe("tornados")
    assert subs.statistics().subscriptions == 3


def test_the_version_grows_with_each_change(subs: SubscriptionSet) -> None:
    versions = [subs.version]
    subs.add("x", "/x")
    versions.append(subs.version)
    subs.replace("x", "/y")
    versions.append(subs.version)
    subs.remove("x")
    versions.append(subs.version)
    assert versions == sorted(set(versions))


# Snapshots.


def test_snapshots_hold_the_set(subs: SubscriptionSet, tmp_path: Path) -> None:
    subs.remove("all-alerts")
    subs.save(tmp_path / "alerts.snapshot")
    loaded = SubscriptionSet.load(tmp_path / "alerts.snapshot", namespaces={"c": CAP})
    assert loaded.match(ALERT).keys == ["flood-desk"]
    assert [loaded[key] for key in loaded] == [subs[key] for key in subs]
    loaded.add("new", "/c:alert")
    assert "new" in loaded.match(ALERT)
    assert "new" not in subs


def test_damaged_snapshots_are_refused(subs: SubscriptionSet, tmp_path: Path) -> None:
    path = tmp_path / "alerts.snapshot"
    subs.save(path)
    whole = path.read_bytes()
    for damage in (
        whole[:-1],
        whole[: len(whole) // 2],
        b"",
        b"\0" * 100,
        whole + b"x",
        whole[:40] + b"?" + whole[41:],
    ):
        path.write_bytes(damage)
        with pytest.raises(SnapshotError):
            SubscriptionSet.load(path)
    with pytest.raises(SnapshotError):
        SubscriptionSet.load(tmp_path / "missing")
    with pytest.raises(SnapshotError):
        subs.save(tmp_path / "no" / "such" / "folder")


def test_sets_are_pickled_with_their_settings(subs: SubscriptionSet) -> None:
    copy = pickle.loads(pickle.dumps(SubscriptionSet(namespaces={"c": CAP}, limits=Limits(depth_max=3))))
    copy.add("k", "/c:alert")
    assert copy.match(ALERT)
    with pytest.raises(MessageLimitExceeded):
        copy.match("<a><a><a><a/></a></a></a>")
    assert pickle.loads(pickle.dumps(subs)).match(ALERT).keys == subs.match(ALERT).keys


# Changes in any order, and at any time.

QUERIES = ["/a", "/a/b", "//b", "/a/*", "//b[@x]", "//b[@x = 1]", "/a[b]", "//c//b", "/a/b | /c", "not(/a)", "//b[2]"]
MESSAGES = [
    "<a/>",
    "<a><b/></a>",
    "<a><b x='1'/><b/></a>",
    "<c><b/></c>",
    "<c><a><b x='2'/></a></c>",
    "<a><c><b/></c></a>",
]


@pytest.mark.filterwarnings("ignore:.*evaluated on each of them")
@given(st.lists(st.tuples(st.sampled_from("klmno"), st.none() | st.sampled_from(QUERIES)), max_size=25))
def test_changes_in_any_order_equal_a_fresh_build(changes: list[tuple[str, str | None]]) -> None:
    subs = SubscriptionSet()
    requested: dict[str, str] = {}
    for key, query in changes:
        if query is None:
            assert subs.discard(key) == (requested.pop(key, None) is not None)
        else:
            subs.replace(key, query)
            requested[key] = query
        subs.match("<a><b/></a>")
    fresh = SubscriptionSet(requested.items())
    for message in MESSAGES:
        assert set(subs.match(message)) == set(fresh.match(message))


def test_threads_match_while_the_population_changes() -> None:
    subs = SubscriptionSet([("always", "/a")])
    faults: list[str] = []
    stop = threading.Event()

    def match() -> None:
        while not stop.is_set():
            keys = subs.match("<a><b/></a>").keys
            # Each key says itself whether it can match.
            if "always" not in keys or any(key.startswith("never") for key in keys):
                faults.append(str(keys))

    def change(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(300):
            name = chance.choice(["never", "maybe"])
            key = f"{name}-{seed}-{number}"
            subs.add(key, "/x" if name == "never" else "/a/b")
            if chance.random() < 0.8:
                subs.remove(key)

    matchers = [threading.Thread(target=match) for _ in range(3)]
    changers = [threading.Thread(target=change, args=(seed,)) for seed in range(3)]
    for thread in matchers + changers:
        thread.start()
    for thread in changers:
        thread.join()
    stop.set()
    for thread in matchers:
        thread.join()
    assert faults == []


def test_warnings_point_at_the_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SubscriptionSet().add("k", "false()")
    assert [warning.filename for warning in caught] == [__file__]


def test_a_snapshot_does_not_take_the_place_of_a_pipe_or_device(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SnapshotError, match="not a regular file"):
        SubscriptionSet([("k", "/m")]).save(pipe)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
