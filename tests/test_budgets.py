"""A message has a budget: cheap subscriptions are decided whatever others cost, and each group has a share."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import lxml.etree
import pytest

from tests.seeds import printed_seed
from twigcast import Limits, Subscription, SubscriptionSet
from twigcast.subscription_files import load_subscriptions

pytestmark = pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")

ELEMENTS = 1_500
FLAT = ("<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(ELEMENTS)) + "</r>").encode()
SMALL = b"<r><a x='1'><b>1</b></a><a x='2'><b>2</b></a></r>"

EXPENSIVE = [
    "//a[following-sibling::a[position() mod 9973 = 0]/@none]",
    "//a[following::a[position() mod @x = 0]/@none]",
    "//b[translate(/, ., '2') = 'q']",
    "//a[@x = preceding::a[position() mod 9973 = 1]/@none]",
    "//a[sum(following::a[position() mod 9973 = 1]/b) = -1]",
    "//a[(following::a | preceding::a)[position() mod @x = 3][last()]/@q]",
    "//a[concat(following::a[position() = last() - ../@q], 'q') = 'z']",
    "//a[sum(preceding::a[position() mod 9973 = 1]/b) = -1]",
    "for $x in //a for $y in //a where $x/b < $y/@none return <z>{ $y }</z>",
]
"""Each takes the square of the message."""

CHEAP = [
    *(f"/r/a[@x = '{n}']" for n in range(0, ELEMENTS, 100)),
    "//a[b = '7'][not(@y)]",
    "//a[not(b = '7')][@x = '8']",
    "//a[last()]/b",
    "count(//a) > 3",
    "not(//c)",
    "//a[@x > 1000 and @x < 1003]",
    "//a[string-length(b) = 4]",
]

TIGHT = Limits(message_visits_max=5_000_000, group_visits_max=5_000_000, overruns_max=0)


def keys_in(message: bytes, queries: list[str]) -> list[str]:
    """Returns the queries that lxml finds true."""
    tree = lxml.etree.fromstring(message)
    return [query for query in queries if tree.xpath(f"boolean({query})")]


def test_cheap_subscriptions_are_decided_beside_expensive_ones() -> None:
    subscriptions = SubscriptionSet(limits=TIGHT)
    many = [(f"expensive {number}", EXPENSIVE[number % len(EXPENSIVE)] + " " * number) for number in range(70)]
    subscriptions.add_many([*many, *((query, query) for query in CHEAP)]).raise_if_refused()
    match = subscriptions.match(FLAT)
    assert sorted(key for key in match.keys if not key.startswith("expensive")) == sorted(keys_in(FLAT, CHEAP))
    undecided = {one.key for one in match.undecided}
    assert undecided
    assert all(key.startswith("expensive") for key in undecided)
    assert len(match.undecided) == len(undecided), "each is told once"


def test_nothing_is_dropped_in_silence() -> None:
    """Each subscription matches as lxml says, or is undecided, under budgets of all sizes and in random populations."""
    seed = printed_seed()
    randomness = random.Random(seed)
    queries = [*CHEAP, *(query for query in EXPENSIVE if not query.startswith("for"))]
    message = ("<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(300)) + "</r>").encode()
    expected = set(keys_in(message, queries))
    for _ in range(20):
        visits = int(10 ** randomness.uniform(0, 7))
        group = int(10 ** randomness.uniform(0, 7))
        limits = Limits(message_visits_max=visits, group_visits_max=group, overruns_max=randomness.choice([0, 1, 3]))
        chosen = randomness.sample(queries, randomness.randint(1, len(queries)))
        subscriptions = SubscriptionSet(limits=limits)
        groups = [randomness.choice(["", "a", "b"]) for _ in chosen]
        subscriptions.add_many(
            Subscription(query, query, group=group) for query, group in zip(chosen, groups, strict=True)
        )
        for _ in range(randomness.randint(1, 6)):
            match = subscriptions.match(message)
            undecided = {one.key for one in match.undecided}
            assert not undecided & set(match.keys)
            assert set(match.keys) == (expected & set(chosen)) - undecided


def test_what_is_expensive_is_decided_where_the_budget_allows_it() -> None:
    limits = Limits(message_visits_max=10**10, group_visits_max=10**10)
    subscriptions = SubscriptionSet(limits=limits)
    queries = [query for query in EXPENSIVE if not query.startswith("for")]
    message = ("<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(200)) + "</r>").encode()
    subscriptions.add_many((query, query) for query in [*queries, *CHEAP]).raise_if_refused()
    match = subscriptions.match(message)
    assert match.undecided == []
    assert sorted(match.keys) == sorted(keys_in(message, [*queries, *CHEAP]))


def test_a_group_has_its_share_whatever_others_take() -> None:
    limits = Limits(message_visits_max=3_000_000, overruns_max=0)
    needs = "//a[sum(preceding-sibling::a[position() = 1]/b) = 7]"
    hostile = [Subscription(f"hostile {n}", EXPENSIVE[n % 5] + " " * n, group="hostile") for n in range(300)]
    subscriptions = SubscriptionSet(limits=limits)
    subscriptions.add_many([*hostile, Subscription("good", needs, group="good")]).raise_if_refused()
    match = subscriptions.match(FLAT)
    assert "good" in match
    assert all(one.key.startswith("hostile") for one in match.undecided)
    assert subscriptions.statistics().groups == 2


def test_a_subscription_that_overruns_is_set_aside_and_tried_again() -> None:
    subscriptions = SubscriptionSet(limits=Limits(message_visits_max=100_000))
    subscriptions.add("expensive", EXPENSIVE[0])
    subscriptions.add("cheap", "/r/a[@x = '7']")
    reasons = []
    for _ in range(60):
        match = subscriptions.match(FLAT)
        assert match.keys == ["cheap"]
        (undecided,) = match.undecided
        assert undecided.key == "expensive"
        reasons.append("throttled" in undecided.reason)
    evaluated = [number for number, throttled in enumerate(reasons) if not throttled]
    assert evaluated == [0, 1, 2, 19, 52], "three times, then after 16 and 32 messages"
    (throttled,) = subscriptions.throttled()
    assert (throttled.key, throttled.overruns, throttled.messages) == ("expensive", 5, 57)
    assert subscriptions.statistics().throttled == 1
    assert "set aside" in " ".join(subscriptions.describe("expensive").warnings)
    subscriptions.replace("expensive", EXPENSIVE[0] + " ")
    assert subscriptions.throttled() == []


def test_a_subscription_that_is_set_aside_is_decided_where_no_evaluation_is_needed() -> None:
    subscriptions = SubscriptionSet(limits=Limits(message_visits_max=100_000))
    subscriptions.add("expensive", EXPENSIVE[0])
    for _ in range(4):
        subscriptions.match(FLAT)
    assert [one.key for one in subscriptions.throttled()] == ["expensive"]
    match = subscriptions.match(b"<r><c/></r>")
    assert not match.keys
    assert not match.undecided, "no element has its label path"


def test_a_trial_on_a_message_that_it_can_afford_ends_the_pause() -> None:
    subscriptions = SubscriptionSet(limits=Limits(message_visits_max=100_000))
    subscriptions.add("expensive", EXPENSIVE[0])
    for _ in range(3):
        subscriptions.match(FLAT)
    for _ in range(16):
        match = subscriptions.match(SMALL)
        assert [one.key for one in match.undecided] == ["expensive"], "it is tried again after 16 messages"
    assert subscriptions.match(SMALL).undecided == []
    assert subscriptions.throttled() == []


def test_nothing_is_set_aside_if_that_is_switched_off() -> None:
    subscriptions = SubscriptionSet(limits=Limits(message_visits_max=100_000, overruns_max=0))
    subscriptions.add("expensive", EXPENSIVE[0])
    for _ in range(10):
        (undecided,) = subscriptions.match(FLAT).undecided
        assert "throttled" not in undecided.reason
    assert subscriptions.throttled() == []


def test_the_reason_names_the_cost_and_what_to_write() -> None:
    subscriptions = SubscriptionSet({"q": EXPENSIVE[0]}, limits=Limits(message_visits_max=100_000))
    (undecided,) = subscriptions.match(FLAT).undecided
    assert "visits" in undecided.reason
    assert "[@kind = 'x']" in undecided.reason


def test_batches_and_deliveries_keep_to_the_budget() -> None:
    pa = pytest.importorskip("pyarrow")
    subscriptions = SubscriptionSet(limits=TIGHT)
    subscriptions.add_many([("expensive", EXPENSIVE[0]), ("cheap", "/r/a[@x = '7']")])
    answers = subscriptions.match_batch(pa.array([FLAT, SMALL]))
    assert answers["keys"].to_pylist() == [["cheap"], []]
    assert [[one["key"] for one in row or []] for row in answers["undecided"].to_pylist()] == [["expensive"], []]
    deliveries = subscriptions.deliver(FLAT)
    assert deliveries.keys == ["cheap"]
    assert [one.key for one in deliveries.undecided] == ["expensive"]


def test_results_that_are_too_expensive_are_told_and_the_others_delivered() -> None:
    costly = (
        "for $x in //a[@x = 7] return <z>{ $x/following::a[sum(following::a[position() mod 9973 = 1]/b) = -1] }</z>"
    )
    limits = Limits(message_visits_max=200_000)
    subscriptions = SubscriptionSet({"costly": costly, "cheap": "for $x in //a[@x = 8] return $x/b"}, limits=limits)
    for number in range(6):
        deliveries = subscriptions.deliver(FLAT)
        assert [(one.key, one.payload) for one in deliveries] == [("cheap", b"<b>8</b>")]
        (undecided,) = deliveries.undecided
        assert undecided.key == "costly"
        assert ("throttled" in undecided.reason) == (number >= 3)


def test_a_query_that_is_decided_by_turns_is_set_aside_for_its_results_alone() -> None:
    """That it is decided while matching says nothing of its results, nor the other way round."""
    condition = "count(following-sibling::a[position() mod 97 = 1 and last() > 0]) > 14"
    result = "$x/following::a[sum(following::a[position() mod 9973 = 1]/b) = -1]"
    query = f"for $x in //a[{condition}] return <z>{{ {result} }}</z>"
    subscriptions = SubscriptionSet({"q": query}, limits=Limits(message_visits_max=3_000_000))
    reasons = []
    for _ in range(6):
        assert subscriptions.match(FLAT).keys == ["q"], "matching is decided, if by turns"
        deliveries = subscriptions.deliver(FLAT)
        assert len(deliveries) == 0
        (undecided,) = deliveries.undecided
        reasons.append("throttled" in undecided.reason)
    assert reasons == [False, False, False, True, True, True]
    (throttled,) = subscriptions.throttled()
    assert (throttled.key, throttled.overruns) == ("q", 3)
    assert subscriptions.statistics().throttled == 1
    # A message whose result it can afford ends that, once the pause is over.
    for _ in range(throttled.messages):
        subscriptions.match(SMALL)
    assert subscriptions.throttled() == []


@pytest.mark.parametrize("elements", [20_000, 60_000])
def test_what_takes_a_hundred_visits_for_each_node_is_decided_on_messages_of_any_size(elements: int) -> None:
    """The limits are small here, so that small messages show what large ones would."""
    message = ("<r>" + "<a><b/></a>" * elements + "</r>").encode()
    # Five counts along axes that are found once, for each of the elements.
    condition = " or ".join(f"count(a) + {n} * count(b/c) + string-length(@k) + count(b/@k) > 7{n}" for n in range(5))
    limits = Limits(message_visits_max=100_000, group_visits_max=100_000, query_visits_max=100_000)
    match = SubscriptionSet({"q": f"//a[{condition}]"}, limits=limits).match(message)
    assert match.undecided == []
    assert match.visits > 40 * elements


def test_texts_that_double_end_with_the_budget() -> None:
    lets = " ".join(f"let $v{n + 1} := concat($v{n}, $v{n})" for n in range(40))
    query = f"let $v0 := string(/) {lets} for $x in //a where string-length($v40) > 1 return <z/>"
    subscriptions = SubscriptionSet({"q": query, "cheap": "//a[@x = '7']"})
    deliveries = subscriptions.deliver(FLAT)
    assert [one.key for one in deliveries] == ["cheap"]
    assert [one.key for one in deliveries.undecided] == ["q"]


@pytest.mark.parametrize("is_shared", [True, False])
def test_results_of_a_message_have_a_limit_together(is_shared: bool) -> None:
    """Each matching subscription has its result, or is undecided with a reason; the different results fit together."""
    seed = printed_seed()
    randomness = random.Random(seed)
    message = ("<r>" + "".join(f"<a x='{n}'><b>{'b' * n * 7}</b></a>" for n in range(60)) + "</r>").encode()
    form = "for $x in /r/a where $x/@x = {n} return <z>{{ $x/b }}</z>"
    if not is_shared:
        form = "let $y := count(//b) for $x in /r/a where $x/@x = {n} and $y > 1 return <z>{{ $x/b }}</z>"
    queries = {f"{n}{twin}": form.format(n=n) for n in range(60) for twin in ("", "'")}
    expected = {one.key: one.payload for one in SubscriptionSet(queries).deliver(message)}
    assert len(expected) == 120
    for _ in range(30):
        total = int(10 ** randomness.uniform(0, 4.5))
        single = int(10 ** randomness.uniform(1, 4))
        limits = Limits(message_result_bytes_max=total, result_bytes_max=single)
        subscriptions = SubscriptionSet(queries, limits=limits)
        deliveries = subscriptions.deliver(message)
        delivered = {one.key: one.payload for one in deliveries}
        reasons = {one.key: one.reason for one in deliveries.undecided}
        assert len(delivered) + len(deliveries.undecided) == 120
        assert delivered.keys() | reasons.keys() == expected.keys()
        assert all(expected[key] == payload for key, payload in delivered.items())
        assert sum(map(len, set(delivered.values()))) <= total
        for key, reason in reasons.items():
            large = len(expected[key]) > single
            assert ("result_bytes_max = " + str(single) in reason) == large or f"= {total}" in reason
            assert large or "message_result_bytes_max" in reason
        [row] = subscriptions.match_batch([message], deliver=True).to_pylist()
        assert row["keys"] is not None
        assert row["payloads"] is not None
        assert dict(zip(row["keys"], row["payloads"], strict=True)) == delivered
        assert {one["key"] for one in row["undecided"] or []} == reasons.keys()


def test_groups_are_kept_with_the_subscriptions(tmp_path: Path) -> None:
    subscriptions = SubscriptionSet()
    subscriptions.add("a", "/x", group="first")
    subscriptions.add_many(
        [("b", "/x"), Subscription("c", "/y[. = 1]", group="second"), ("d", "/z", {}, None, "first")]
    )
    expected = {"a": "first", "b": "", "c": "second", "d": "first"}
    path = tmp_path / "set"
    subscriptions.save(path)
    for one in (subscriptions, pickle.loads(pickle.dumps(subscriptions)), SubscriptionSet.load(path)):
        assert {key: one[key].group for key in one} == expected
    subscriptions.replace("a", "/x2")
    assert subscriptions["a"].group == ""
    file = tmp_path / "subscriptions.jsonl"
    file.write_text('{"key": "k", "query": "/x", "group": "g"}\n{"key": "l", "query": "/x", "group": 7}\n')
    loaded, refused = load_subscriptions(file)
    assert loaded["k"].group == "g"
    assert "group must be str, not int" in str(refused[0])


@pytest.mark.parametrize("value", [-1, b"x", None])
def test_a_group_is_text(value: object) -> None:
    with pytest.raises(TypeError, match="group must be str"):
        SubscriptionSet().add("k", "/x", group=value)  # type: ignore[arg-type]
