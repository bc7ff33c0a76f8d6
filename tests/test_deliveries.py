"""Deliveries of one message and of batches: shared payloads, large ones, ones that cannot be made."""

from __future__ import annotations

import pickle
import random
import warnings
from typing import Any

import pyarrow as pa
import pytest

from tests.seeds import printed_seed
from twigcast import Deliveries, Delivery, Limits, SubscriptionSet
from twigcast.errors import QueryWarning
from twigcast.lab.workload import PRESETS, bundled_dtd, flwr_queries
from twigcast.reading.conversion import expands, to_document, to_utf8

SEED = 20261128
FEED = b"<f>" + b"".join(b"<i n='%d'><t>title %d</t></i>" % (n % 7, n) for n in range(2000)) + b"</f>"


def test_subscriptions_that_get_the_same_share_one_payload() -> None:
    subscriptions = SubscriptionSet(
        [
            ("a", "for $i in /f/i where $i/@n = 1 return <r>{ $i/t }</r>"),
            ("b", "for $i in //i where $i/@n = '1' return <r>{ $i/t }</r>"),
            ("c", "for $i in /f/i where $i/@n = 2 return <r>{ $i/t }</r>"),
            ("d", "//i[@n = 3]"),
        ]
    )
    deliveries = subscriptions.deliver(FEED)
    assert [delivery.key for delivery in deliveries] == ["a", "b", "c", "d"]
    a, b, c, d = deliveries
    assert a.payload is b.payload
    assert a.payload != c.payload
    assert (d.payload, d.rewritten) == (FEED, False)
    assert len(deliveries.payloads) == 2
    assert deliveries == [a, b, c, d]
    assert deliveries[1:3] == [b, c]
    assert deliveries[-1] == d
    assert a.payload.count(b"<r>") == len(range(1, 2000, 7))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_gives_the_same_as_messages_one_by_one(threads: int) -> None:
    queries = [f"for $i in /f/i where $i/@n = {n} return <r n='{n // 2}'>{{ $i/t }}</r>" for n in range(7)]
    subscriptions = SubscriptionSet([(f"q{n}", query) for n, query in enumerate([*queries, "//i", "//nothing"])])
    messages = [FEED, b"<f/>", b"<f><i n='3'><t/></i></f>", b"<broken", FEED[:-4] + b"<i n='9'/></f>"] * 20
    batch = subscriptions.match_batch(pa.array(messages), deliver=True, threads=threads)
    for row, message in enumerate(messages):
        if message == b"<broken":
            assert batch.column("payloads")[row].as_py() is None
            continue
        expected = [(d.key, d.payload if d.rewritten else None) for d in subscriptions.deliver(message)]
        keys, payloads = batch.column("keys")[row].as_py(), batch.column("payloads")[row].as_py()
        assert keys is not None
        assert payloads is not None
        assert list(zip(keys, payloads, strict=True)) == expected


def test_large_payloads_reach_python_whole() -> None:
    feed = b"<f><i>" + b"]]" * 700_000 + b"<j/>" + b"&gt;" * 400_000 + b"</i>" + b"<i>x</i></f>"
    subscriptions = SubscriptionSet(
        [
            ("text", "for $i in //i return <r>{ $i/text() }</r>"),
            ("twice", "for $i in //i return <r>{ $i }{ $i }</r>"),
            ("small", "for $i in //i[. = 'x'] return <r>{ $i }</r>"),
        ]
    )
    text = b"<r>" + b"]]" * 700_000 + b"&gt;" * 400_000 + b"</r><r>x</r>"
    first = feed[len(b"<f>") : feed.rindex(b"<i>")]
    expected = [
        Delivery("text", text, rewritten=True),
        Delivery("twice", b"<r>" + first * 2 + b"</r><r><i>x</i><i>x</i></r>", rewritten=True),
        Delivery("small", b"<r><i>x</i></r>", rewritten=True),
    ]
    assert subscriptions.deliver(feed) == expected
    [payloads] = subscriptions.match_batch(pa.array([feed]), deliver=True).column("payloads").to_pylist()
    assert payloads == [delivery.payload for delivery in expected]


@pytest.mark.parametrize("bytes_max", [10_000, 3_000_000])
def test_a_result_over_the_limit_is_rejected_and_the_others_go_out(bytes_max: int) -> None:
    feed = b"<f><i><t>" + b"long " * 300_000 + b"</t></i>" + FEED[3:] if bytes_max > 1_000_000 else FEED
    limits = Limits(result_bytes_max=bytes_max)
    twice = "for $i in /f/i return <r>{ $i/t }{ $i/t }{ $i/t }</r>"
    subscriptions = SubscriptionSet(
        [
            ("before", "for $i in /f/i where $i/@n = 3 return <r>{ $i/t }</r>"),
            ("large", twice),
            ("same", twice),
            ("after", "for $i in /f/i where $i/@n = 4 return <r>{ $i/t }</r>"),
            ("plain", "//i"),
        ],
        limits=limits,
    )
    deliveries = subscriptions.deliver(feed)
    assert [delivery.key for delivery in deliveries] == ["before", "after", "plain"]
    assert deliveries[0].payload.startswith(b"<r><t>title 3</t></r><r><t>title 10</t></r>")
    assert deliveries[1].payload.endswith(b"</t></r>")
    assert deliveries[1].payload.startswith(b"<r><t>title 4</t></r>")
    reason = f"the result is over the limit result_bytes_max = {bytes_max}"
    assert [(error.key, error.reason) for error in deliveries.undecided] == [("large", reason), ("same", reason)]
    batch = subscriptions.match_batch(pa.array([feed]), deliver=True)
    payloads = [None if not delivery.rewritten else delivery.payload for delivery in deliveries]
    assert batch.column("payloads")[0].as_py() == payloads
    undecided = batch.column("undecided")[0].as_py()
    assert undecided is not None
    assert [item["key"] for item in undecided] == ["large", "same"]


@pytest.mark.parametrize("predicates", [0, 1, 2])
@pytest.mark.parametrize("feed", ["library", "manual"])
def test_sharing_changes_no_payload(feed: str, predicates: int) -> None:
    schema = bundled_dtd(feed)
    texts = flwr_queries(
        schema, 60, 7, binding_depth=3, predicate_paths=predicates, return_paths=1 + predicates, descendant=0.4
    )
    wrapped = [f"<w n='{number % 3}'>{{ {text} }}</w>" for number, text in enumerate(texts)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        subscriptions = SubscriptionSet((str(number), text) for number, text in enumerate([*texts, *wrapped]))
        alone = [SubscriptionSet([("q", text)]) for text in texts[:10]]
    delivered = 0
    for message in PRESETS[feed].make(schema, 8, 3):
        subscriptions._session.engine.share_results(False)
        expected = list(subscriptions.deliver(message))
        subscriptions._session.engine.share_results(True)
        shared = subscriptions.deliver(message)
        assert shared == expected
        assert len(shared.payloads) <= len(expected)
        by_key = {delivery.key: delivery.payload for delivery in shared}
        for number, single in enumerate(alone):
            assert [delivery.payload for delivery in single.deliver(message)] == (
                [by_key[str(number)]] if str(number) in by_key else []
            )
        delivered += len(expected)
    assert delivered > 50


def test_deliveries_looked_at_one_after_the_other_are_those_looked_at_by_number() -> None:
    """Whether all are rewritten, none, or some; and whether subscriptions came in the order of their slots or not."""
    chance = random.Random(SEED)
    rewriting = [f"for $i in //i where $i/@n = {n} return <r>{{ $i/t }}</r>" for n in range(7)]
    whole = [f"//i[@n = {n}]" for n in range(7)]
    for queries in (rewriting, whole, rewriting + whole):
        subscriptions = SubscriptionSet()
        for number in range(200):
            subscriptions.add(f"q{number}", chance.choice(queries))
        for number in chance.sample(range(200), 50):
            subscriptions.discard(f"q{number}")
            if number % 2:
                subscriptions.add(f"again{number}", chance.choice(queries))
        message = FEED[:500].rpartition(b"<i")[0] + b"</f>"
        deliveries = subscriptions.deliver(message)
        assert len(deliveries) > 100, SEED
        assert [deliveries[number] for number in range(len(deliveries))] == list(deliveries), SEED
        assert list(deliveries.keys) == [delivery.key for delivery in deliveries], SEED
        assert sorted(deliveries.keys) == sorted(subscriptions.match(message)), SEED
        results = [None if number is None else deliveries.payloads[number] for number in deliveries.payload_indices]
        assert results == [delivery.payload if delivery.rewritten else None for delivery in deliveries], SEED


def test_keys_looked_at_late_are_those_of_then_however_the_set_grew_since() -> None:
    """Tables of keys grow where they are, and what was asked of one is known to those that have grown from it."""
    chance = random.Random(SEED)
    subscriptions = SubscriptionSet([(f"first {number}", "//i") for number in range(20)])
    expected = {f"first {number}" for number in range(20)}
    kept = []
    for number in range(300):
        many = chance.choice([1, 1, 1, 40])
        keys = [f"{number}.{which}" for which in range(many)]
        subscriptions.add_many([(key, "//i") for key in keys])
        expected.update(keys)
        deliveries = subscriptions.deliver(b"<f><i/></f>")
        if chance.random() < 0.3:
            assert {delivery.key for delivery in deliveries} == expected, f"seed {SEED}, change {number}"
        kept.append((deliveries, set(expected)))
    chance.shuffle(kept)
    for deliveries, then in kept:
        assert set(deliveries.keys) == then, f"seed {SEED}"


@pytest.mark.parametrize("count", [500, 2_000])
def test_deliveries_name_the_keys_of_their_moment_whenever_they_are_looked_at(count: int) -> None:
    """Subscriptions are removed and others get their slots, before and after deliveries are looked at.

    There is a table of all keys at once, or, where there are many, once it has paid.
    """
    seed = printed_seed()
    chance = random.Random(seed)
    queries = [f"for $i in /f/i where $i/@n = {n} return <r>{{ $i/@n }}</r>" for n in range(5)] + ["/f[i/@n = 3]"]
    held = {f"key-{number}": chance.choice(queries) for number in range(count)}
    subscriptions = SubscriptionSet(held.items())
    kept: list[tuple[Deliveries, dict[str, bytes]]] = []

    def check(deliveries: Deliveries, reported: dict[str, bytes]) -> None:
        for by_columns in chance.sample([False, True], 2):
            if by_columns:
                rows = deliveries.arrow().to_pylist()
                assert {row["key"]: row["payload"] or deliveries.message for row in rows} == reported
            else:
                assert {delivery.key: delivery.payload for delivery in deliveries} == reported

    for round_ in range(40):
        for key in chance.sample(sorted(held), min(len(held), chance.choice((0, 1, 200)))):
            subscriptions.remove(key)
            del held[key]
        for number in range(chance.choice((0, 1, 200))):
            held[f"{round_}-{number}"] = query = chance.choice(queries)
            subscriptions.add(f"{round_}-{number}", query)
        n = chance.randrange(5)
        message = f"<f><i n='{n}'/></f>".encode()
        results = {queries[n]: f"<r n='{n}'/>".encode()} | ({queries[5]: message} if n == 3 else {})
        expected = {key: results[query] for key, query in held.items() if query in results}
        assert subscriptions.node_counts(message) == dict.fromkeys(expected, 1)
        kept.append((subscriptions.deliver(message), expected))
        for deliveries, reported in chance.sample(kept, min(len(kept), chance.choice((0, 3)))):
            check(deliveries, reported)
    for deliveries, reported in kept:
        check(deliveries, reported)


SUBSET = """<!ENTITY e "<t>5 &amp; &o;</t>"><!ENTITY o 'more'><!ATTLIST i n CDATA '3' k NMTOKENS #IMPLIED>
<!-- > ]]> -->"""
PROLOGS = (
    "",
    "\ufeff",
    "<?xml version='1.0'?>",
    '\ufeff<?xml version="1.0"\r\n encoding = "UTF-8" standalone="no" ?>\n',
    "<?xml version='1.1' encoding='us-ascii'?> <!-- <!DOCTYPE x> -->",
    "<?xml version='1.0' encoding='ISO-8859-1'?>",
)
DOCTYPES = (
    "",
    "<!-- <!DOCTYPE f> -->",
    "<!DOCTYPE f>\n",
    "<!DOCTYPE f SYSTEM 'f.dtd' []> \t",
    f"<!DOCTYPE f [{SUBSET}]>",
    f"<!DOCTYPE f [{SUBSET}<!ATTLIST i x ID #IMPLIED>]>\r\n\n",
    f"<!DOCTYPE f PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x' [{SUBSET}]>",
)


def message_with_doctype(chance: random.Random) -> bytes:
    """A feed that its DOCTYPE changes, if it has one; it may be in ISO 8859-1."""
    prolog, doctype = chance.choice(PROLOGS), chance.choice(DOCTYPES)
    values = ["", " n='1'", " n='2'", " k=' a  b '", " k='a b' n='3'", " x='y'"]
    texts = ["<t>5</t>", "<t/>", "6", *(["&e;", "<t>&o;</t>"] if "ENTITY" in doctype else [])]
    texts += ["<t>\u00fc</t>"] * ("ascii" not in prolog)
    items = (f"<i{chance.choice(values)}>{chance.choice(texts)}</i>" for _ in range(chance.randrange(6)))
    encoding = "iso-8859-1" if "8859" in prolog else "utf-8"
    return f"{prolog}{doctype}<f>{''.join(items)}</f>".encode(encoding)


@pytest.mark.parametrize("settings", [{}, {"entities": "html"}, {"tolerant": True}])
def test_what_a_doctype_changes_is_delivered_as_after_a_conversion(settings: dict[str, Any]) -> None:
    """Also long after, when the memory of the message could have been used for others."""
    chance = random.Random(printed_seed())
    queries = {f"n {n}": f"for $i in //i where $i/@n = {n} return <r>{{ $i }}{{ $i/t }}</r>" for n in range(1, 4)}
    queries |= {f"k {n}": f"//i[@n = {n}][t]" for n in range(1, 4)} | {"id": "id('y')", "ab": "//i[@k = 'a b']"}
    # The first one is not decided together with others.
    queries["sum"] = "for $f in /f return <s a='{ count($f//t) }'>{ string($f) }</s>"
    for held in (queries, {key: query for key, query in queries.items() if not query.startswith("for")}):
        subscriptions = SubscriptionSet(held, **settings)
        types = subscriptions._session.reading.types
        messages = [message_with_doctype(chance) for _ in range(150)]
        kept = [subscriptions.deliver(message) for message in messages]
        batch = subscriptions.match_batch(messages, deliver=True, nodes=True)
        for message, delivered, row in zip(messages, kept, batch.to_pylist(), strict=True):
            has_doctype = b"<!DOCTYPE f" in message and b"<!-- <!DOCTYPE f" not in message
            whole = to_document(message, types=types) if has_doctype or expands(message, types) else message
            plain = to_utf8(message)
            expected = [(one.key, one.payload if one.rewritten else whole) for one in subscriptions.deliver(plain)]
            assert [(one.key, one.payload) for one in delivered] == expected, message
            assert delivered.message == whole, message
            assert [one["payload"] or whole for one in delivered.arrow().to_pylist()] == [one[1] for one in expected]
            assert pickle.loads(pickle.dumps(delivered)) == delivered
            counts = subscriptions.node_counts(plain)
            assert subscriptions.node_counts(message) == counts
            assert row["keys"] == [key for key, _ in expected]
            assert [payload or whole for payload in row["payloads"] or []] == [payload for _, payload in expected]
            assert row["nodes"] == [counts[key] for key in row["keys"] or []]
