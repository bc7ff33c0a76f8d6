"""Deliveries as columns: against those looked at one by one, those of batches, and unshared ones."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from tests.flwr_generator import NAMESPACES, QueryMaker
from tests.flwr_generator import message as any_message
from tests.seeds import printed_seed
from twigcast import Deliveries, Envelope, Limits, SubscriptionSet
from twigcast.errors import QueryWarning
from twigcast.lab.workload import PRESETS, bundled_dtd, flwr_queries

Told = list[tuple[str, bytes | None]]

SCHEMA = pa.schema(
    [("key", pa.dictionary(pa.int32(), pa.string())), ("payload", pa.dictionary(pa.int32(), pa.large_binary()))]
)


def told_together(deliveries: Deliveries, *, again: bool = True) -> Told:
    """Who gets what, by the columns; ``None`` for the message itself."""
    batch = deliveries.arrow()
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    assert len(batch) == len(deliveries)
    assert batch.column("payload").indices.to_pylist() == deliveries.payload_indices
    if again:
        assert results_of(deliveries) == list(deliveries.payloads)
        assert told_together(deliveries, again=False) == told_one_by_one(deliveries)
    return list(zip(batch.column("key").to_pylist(), batch.column("payload").to_pylist(), strict=True))


def results_of(deliveries: Deliveries) -> list[bytes]:
    """The different results, by index."""
    results = deliveries.arrow().column("payload").dictionary.to_pylist()
    assert None not in results
    return [result for result in results if result is not None]


def told_one_by_one(deliveries: Deliveries) -> Told:
    return [(delivery.key, delivery.payload if delivery.rewritten else None) for delivery in deliveries]


def told_by_batch(subscriptions: SubscriptionSet, message: bytes) -> Told:
    row = subscriptions.match_batch(pa.array([message], pa.large_binary()), deliver=True).to_pylist()[0]
    assert row["keys"] is not None
    assert row["payloads"] is not None
    return list(zip(row["keys"], row["payloads"], strict=True))


def check(subscriptions: SubscriptionSet, message: bytes) -> int:
    """All ways agree, whichever is asked first; how many deliveries there are."""
    expected = told_by_batch(subscriptions, message)
    assert told_together(subscriptions.deliver(message)) == expected
    looked_at = subscriptions.deliver(message)
    assert told_one_by_one(looked_at) == expected
    assert told_together(looked_at) == expected
    subscriptions._session.engine.share_results(False)
    unshared = subscriptions.deliver(message)
    subscriptions._session.engine.share_results(True)
    assert told_one_by_one(unshared) == told_together(unshared) == expected
    return len(expected)


@pytest.fixture
def seed() -> int:
    return printed_seed()


@contextmanager
def no_doubts() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        yield


@pytest.mark.parametrize("predicates", [0, 1, 3])
@pytest.mark.parametrize("feed", ["library", "manual"])
def test_they_are_those_of_a_batch_and_those_looked_at(feed: str, predicates: int, seed: int) -> None:
    chance = random.Random(seed)
    schema = bundled_dtd(feed)
    texts = flwr_queries(schema, 80, seed, binding_depth=3, predicate_paths=predicates, return_paths=2, descendant=0.4)
    # Some share a query, so that a query's number is no slot; some are made otherwise; some rewrite nothing.
    texts += [f"<w n='{number % 3}'>{{ {text} }}</w>" for number, text in enumerate(texts[:20])]
    for others in ([], chance.choices(texts, k=20), ["//*", "/*/*[2]", "//nothing"] * 5):
        texts = [*texts, *others]
        with no_doubts():
            subscriptions = SubscriptionSet((str(number), text) for number, text in enumerate(texts))
        for number in chance.sample(range(len(texts)), 20):
            subscriptions.remove(str(number))
        delivered = sum(check(subscriptions, message) for message in PRESETS[feed].make(schema, 6, seed))
        assert predicates > 1 or delivered > 50


def test_so_they_are_with_namespaces_copied_markup_and_other_encodings(seed: int) -> None:
    chance = random.Random(seed)
    delivered = 0
    for _ in range(20):
        make = QueryMaker(chance)
        with no_doubts():
            subscriptions = SubscriptionSet(namespaces=NAMESPACES)
            refused = subscriptions.add_many([(str(number), make.query().text) for number in range(40)]).refused
            assert not refused
            subscriptions.add_many([(f"copy {number}", f"for $v in //*[{number}] return $v") for number in range(1, 9)])
        text = any_message(chance)
        delivered += check(subscriptions, text.encode())
        for encoding in ("utf-16", "latin-1"):
            declared = f"<?xml version='1.0' encoding='{encoding}'?>{text}".encode(encoding)
            result, plain = subscriptions.deliver(declared), subscriptions.deliver(text)
            assert told_together(result) == told_by_batch(subscriptions, declared)
            assert results_of(result) == results_of(plain)
    assert delivered > 100


def test_where_nothing_is_rewritten_there_are_none() -> None:
    subscriptions = SubscriptionSet([("a", "//i"), ("b", "for $i in //j return <r>{ $i }</r>")])
    for message in (b"<f><i/></f>", b"<f/>"):
        deliveries = subscriptions.deliver(message)
        assert results_of(deliveries) == list(deliveries.payloads) == []
        assert deliveries.payload_indices == [None] * len(deliveries)
        check(subscriptions, message)


def test_an_envelope_is_not_around_them() -> None:
    subscriptions = SubscriptionSet([("a", "for $i in //i return <r>{ $i }</r>")])
    deliveries = subscriptions.deliver(b"<f><i/></f>", envelope=Envelope("to"), message_id="7")
    assert results_of(deliveries) == [b"<r><i/></r>"]
    assert deliveries[0].payload == b'<to message="7" key="a"><r><i/></r></to>'


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 40_000])
def test_large_results_are_whole(count: int) -> None:
    """In several chunks, of pieces that are put together once or too large for that; and of a message of many nodes."""
    large = b"<i n='1'><t>" + b"]] " * (4_000_000 // count) + b"</t></i>"
    feed = b"<f>" + large + b"<i n='2'><t>x</t></i>" * count + b"</f>"
    subscriptions = SubscriptionSet(
        [
            ("all", "for $i in /f/i return <r>{ $i/t }</r>"),
            ("twice", "for $i in /f/i return <r>{ $i/t }{ $i/t }</r>"),
            ("large", "for $i in /f/i where $i/@n = 1 return <r>{ $i/t }</r>"),
            ("small", "for $i in /f/i where $i/@n = 2 return <r>{ $i/@n }</r>"),
            ("ordered", "for $i in /f/i order by $i/@n return <r>{ $i/@n }</r>"),
            ("plain", "/f/i"),
        ]
    )
    assert check(subscriptions, feed) == 6
    assert sum(map(len, results_of(subscriptions.deliver(feed)))) > 2_000_000


@pytest.mark.parametrize("bytes_max", [200, 2_000])
def test_what_is_over_a_limit_has_a_number_and_no_bytes(bytes_max: int, seed: int) -> None:
    chance = random.Random(seed)
    items = "".join(f"<i n='{number % 9}'><t>{'t' * chance.randrange(60)}</t></i>" for number in range(300))
    texts = [
        f"for $i in {path} where $i/@n {relation} {number} return <r>{{ $i/t }}{{ $i/{more} }}</r>"
        for path in ("/f/i", "//i")
        for relation in "<=>"
        for number in range(9)
        for more in ("t", "none")
    ]
    subscriptions = SubscriptionSet(
        [(str(number), text) for number, text in enumerate(texts)], limits=Limits(result_bytes_max=bytes_max)
    )
    message = f"<f>{items}</f>".encode()
    deliveries = subscriptions.deliver(message)
    joined = results_of(deliveries)
    assert check(subscriptions, message) < len(texts) - 10
    assert deliveries.undecided
    got = {index for index in deliveries.payload_indices if index is not None}
    assert len(got) < len(joined)
    assert all(0 < len(joined[number]) <= bytes_max for number in got)
    assert not any(joined[number] for number in set(range(len(joined))) - got)
    assert joined == list(deliveries.payloads)


@pytest.mark.parametrize(("order", "count"), [("", 1_100), ("order by $i/@k", 150)])
def test_no_memory_for_all_is_an_error(order: str, count: int) -> None:
    """Whether they are put together now, or were made when the message was matched; one by one they can be had."""
    if not sys.platform.startswith("linux"):
        pytest.skip("what the process holds is read as Linux tells it")
    script = f"""
import resource
from pathlib import Path
from twigcast import Limits, SubscriptionSet

queries = [(str(n), f"for $i in /f/i {order} return <r n='{{n}}'>{{{{ $i/t }}}}</r>") for n in range({count})]
limits = Limits(message_result_bytes_max=4 << 30)
deliveries = SubscriptionSet(queries, limits=limits).deliver("<f><i><t>" + "x" * 1_000_000 + "</t></i></f>")
indices = deliveries.payload_indices
import pyarrow
page = resource.getpagesize()
held = int(Path("/proc/self/statm").read_text().split()[0]) * page
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (held + 100_000_000, limits[1]))
try:
    deliveries.arrow()
except MemoryError as error:
    print(error)
print(len(deliveries.payloads[indices[7]]))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    refused, created = ran.stdout.splitlines()
    assert refused.startswith("there is no memory for all results of the message at once, ")
    assert int(refused.split()[-2]) > count * 1_000_000
    assert int(created) == len("<r n='7'><t></t></r>") + 1_000_000


def test_the_set_may_change_before_they_are_put_together(seed: int) -> None:
    chance = random.Random(seed)
    values = range(12)
    queries = [f"for $i in /f/i where $i/@n = {n} return <r>{{ $i/t }}</r>" for n in values] + ["/f[i/@n = 3]"]
    held = {f"first {number}": chance.choice(queries) for number in range(300)}
    subscriptions = SubscriptionSet(held.items())
    kept: list[tuple[Deliveries, Told]] = []
    for round_ in range(60):
        for key in chance.sample(sorted(held), min(len(held), chance.choice((0, 1, 30)))):
            subscriptions.remove(key)
            del held[key]
        for number in range(chance.choice((0, 1, 30))):
            key = f"{round_}-{number}"
            # Ones that differ in nothing but a constant, and others that change how all are laid out.
            held[key] = query = chance.choice((*queries, f"for $i in /f/i where $i/x{round_} = 1 return <r/>"))
            subscriptions.add(key, query)
        chosen = chance.sample(values, 3)
        message = f"<f>{''.join(f'<i n={str(n)!r}><t>{round_}</t></i>' for n in chosen)}</f>".encode()
        results: dict[str, bytes | None] = {queries[n]: f"<r><t>{round_}</t></r>".encode() for n in chosen}
        results |= {queries[-1]: None} if 3 in chosen else {}
        expected: Told = [(key, results[query]) for key, query in held.items() if query in results]
        kept.append((subscriptions.deliver(message), expected))
    chance.shuffle(kept)
    for deliveries, expected in kept:
        assert sorted(told_together(deliveries), key=str) == sorted(expected, key=str)


def test_memory_is_not_used_again_as_long_as_anything_looks_at_it(seed: int) -> None:
    chance = random.Random(seed)
    subscriptions = SubscriptionSet(
        [(str(n), f"for $i in /f/i where $i/@n = {n} return <r>{{ $i }}</r>") for n in range(20)]
    )
    kept: list[tuple[pa.Array, list[bytes]]] = []
    for _ in range(300):
        items = [f"<i n='{chance.randrange(20)}'>{'x' * chance.choice((3, 50, 3_000))}</i>" for _ in range(20)]
        message = f"<f>{''.join(items)}</f>"
        expected = list(subscriptions.deliver(message).payloads)
        results = subscriptions.deliver(message).arrow().column("payload").dictionary
        # All results, or the last ones.
        start = chance.choice((0, len(results) // 2))
        kept.append((results[start:], expected[start:]))
        del results
        if chance.random() < 0.5:
            kept.pop(chance.randrange(len(kept)))
    assert len(kept) > 20
    for results, expected in kept:
        assert results.to_pylist() == expected


def test_threads_may_ask_one_answer_for_everything_at_the_same_time(seed: int) -> None:
    schema = bundled_dtd("manual")
    with no_doubts():
        subscriptions = SubscriptionSet(
            (str(number), text)
            for number, text in enumerate(
                [*flwr_queries(schema, 400, seed, binding_depth=3), "//*", "<a>{ for $v in //* return $v }</a>"]
            )
        )
    failures: list[BaseException] = []
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def ask(deliveries: Deliveries, expected: Told, chance: random.Random, barrier: threading.Barrier) -> None:
        try:
            barrier.wait(60)
            for _ in range(3):
                if chance.random() < 0.5:
                    assert told_together(deliveries, again=False) == expected
                else:
                    assert told_one_by_one(deliveries) == expected
        except BaseException as failure:  # noqa: BLE001 - all are judged below; a panic is no Exception
            failures.append(failure)

    try:
        for number, message in enumerate(PRESETS["manual"].make(schema, 15, seed)):
            expected = told_by_batch(subscriptions, message)
            deliveries, barrier = subscriptions.deliver(message), threading.Barrier(4)
            threads = [
                threading.Thread(
                    target=ask,
                    args=(deliveries, expected, random.Random(seed + 10 * number + which), barrier),
                    daemon=True,
                )
                for which in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads), "the threads wait for each other"
    finally:
        sys.setswitchinterval(usual)
    assert not failures, failures


def test_results_of_another_processor_are_among_them() -> None:
    pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")
    grouped = "for $a in //a group by $k := $a/@k order by $k return <g k='{$k}'>{ sum($a) }</g>"
    subscriptions = SubscriptionSet(
        [
            ("grouped", grouped),
            ("plain", "//a[@k = 1]"),
            ("rewrites", "for $a in //a where $a/@k = 2 return <x>{ $a }</x>"),
            ("the same", "for $a in /r/a where $a/@k = 2 return <x>{ $a }</x>"),
            ("fails", "for $a in //a return xs:integer($a) idiv 0"),
        ],
        dialect="xquery",
    )
    message = b"<r><a k='1'>1</a><a k='2'>2</a><a k='1'>3</a></r>"
    deliveries = subscriptions.deliver(message)
    assert told_together(deliveries) == told_by_batch(subscriptions, message)
    assert dict(told_together(deliveries)) == {
        "grouped": b'<g k="1">4</g><g k="2">2</g>',
        "plain": None,
        "rewrites": b"<x><a k='2'>2</a></x>",
        "the same": b"<x><a k='2'>2</a></x>",
    }
    assert [error.key for error in deliveries.undecided] == ["fails"]
