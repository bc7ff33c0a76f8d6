"""Counting by tasks: partial counts of any division of the messages add up to what the library says of each message."""

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.seeds import printed_seed
from twigcast import Limits, SubscriptionSet
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import PipelineError, RejectedMessage
from twigcast.spark import delivery_counts
from twigcast.spark.delivery_counts import COUNTED, TOTALS, DeliveryCounter
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.spark.message_times import TimeReader

COLUMNS = MessageColumns(published="published")
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
Cell = tuple[dt.date | None, str]
Messages = Sequence[tuple[str, bytes, dt.datetime | None]]


def batch(messages: Messages) -> pa.RecordBatch:
    times = pa.array([time for _, _, time in messages], pa.timestamp("us", "UTC"))
    return pa.record_batch(
        {
            "message_id": pa.array([name for name, _, _ in messages], pa.string()),
            "xml": pa.array([xml for _, xml, _ in messages], pa.binary()),
            "published": times,
            "day": times.cast(pa.date32()),
        }
    )


def counted(
    sets: Sequence[SubscriptionSet], batches: Sequence[Messages], samples: int = 2
) -> tuple[Counter[tuple[dt.date | None, str, str]], list[dict[str, object]], dict[str, int], list[str]]:
    """Counts by day, key and kind; samples; totals; ids of messages in the list of those that were rejected."""
    counter = DeliveryCounter([BatchMatcher(one._session) for one in sets], samples)
    rows = [row for messages in batches for part in counter.add(batch(messages), COLUMNS) for row in part.to_pylist()]
    rows += [row for part in counter.finish() for row in part.to_pylist()]
    numbers: Counter[tuple[dt.date | None, str, str]] = Counter()
    kept = []
    for row in rows:
        if row["kind"] == "counts":
            for name, number in zip(COUNTED, row["numbers"], strict=True):
                numbers[row["day"], row["key"], name] += number
            kept += [{**sample, "day": row["day"], "key": row["key"]} for sample in row["samples"]]
    totals = dict(zip(TOTALS, next(row["numbers"] for row in rows if row["kind"] == "totals"), strict=True))
    return +numbers, kept, totals, [row["rejected"]["message_id"] for row in rows if row["kind"] == "rejected"]


def delivered(population: SubscriptionSet, xml: bytes) -> dict[str, bytes | None]:
    """The payload by key, ``None`` for the message itself."""
    return {one.key: one.payload if one.rewritten else None for one in population.deliver(xml)}


def is_rejected(xml: bytes) -> bool:
    try:
        SubscriptionSet({"all": "/*"}).match(xml)
    except RejectedMessage:
        return True
    return False


def model(
    sets: Sequence[SubscriptionSet], messages: Messages
) -> tuple[Counter[tuple[dt.date | None, str, str]], dict[tuple[str, str], str]]:
    """What the library says message by message: counts, and the change of each message and key."""
    numbers: Counter[tuple[dt.date | None, str, str]] = Counter()
    changes = {}
    for name, xml, time in messages:
        day = None if time is None else time.astimezone(dt.UTC).date()
        try:
            before, after = delivered(sets[0], xml), delivered(sets[-1], xml)
        except RejectedMessage:
            continue
        numbers.update((day, key, "before") for key in before)
        if len(sets) == 1:
            changes.update(dict.fromkeys(((name, key) for key in before), "before"))
            continue
        numbers.update((day, key, "after") for key in after)
        for key in before.keys() | after.keys():
            if key not in before:
                changes[name, key] = "gained"
            elif key not in after:
                changes[name, key] = "lost"
            elif before[key] != after[key]:
                changes[name, key] = "changed"
            if (name, key) in changes:
                numbers[day, key, changes[name, key]] += 1
    return numbers, changes


def populations(source: random.Random) -> list[SubscriptionSet]:
    """Two populations that share keys: with the same query, with another one, and with none."""
    some = [replace(one, key=f"k{n}") for n, one in enumerate(subscriptions(source.randrange(1 << 20), 60))]
    other = [replace(one, key=f"k{n}") for n, one in enumerate(subscriptions(source.randrange(1 << 20), 70))]
    second = [one if source.random() < 0.5 else two for one, two in zip(some, other, strict=False)]
    second += other[60:]
    source.shuffle(second)
    return [SubscriptionSet(some[:50]), SubscriptionSet(second[5:])]


def messages_of(source: random.Random, count: int) -> list[tuple[str, bytes, dt.datetime | None]]:
    made = []
    for number, (_, xml) in enumerate(feed(source.randrange(1 << 20), count)):
        time = None if source.random() < 0.1 else NOON + dt.timedelta(hours=source.randrange(100))
        made.append((f"m{number}", xml[:-3] if source.random() < 0.1 else xml, time))
    return made


@pytest.mark.parametrize("count", [1, 2])
def test_counts_are_those_of_the_library(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(printed_seed())
    monkeypatch.setattr(delivery_counts, "_CELLS_MAX", source.choice([3, 50_000]))
    sets = populations(source)[:count]
    messages = messages_of(source, 60)
    cuts = sorted(source.sample(range(1, 60), 4))
    batches = [messages[start:end] for start, end in zip([0, *cuts], [*cuts, 60], strict=True)]
    numbers, samples, totals, rejected = counted(sets, batches)
    expected, changes = model(sets, messages)
    assert numbers == expected
    assert sum(expected.values()) > 20
    assert {name: sum(n for (_, _, of), n in expected.items() if of == name) for name in COUNTED} == {
        name: totals[name] for name in COUNTED
    }
    assert totals["messages"] == 60
    assert sorted(rejected) == sorted(name for name, xml, _ in messages if is_rejected(xml))
    assert totals["rejected"] == len(rejected)
    assert totals["undated"] == sum(time is None and name not in rejected for name, _, time in messages)
    for sample in samples:
        assert changes[str(sample["message_id"]), str(sample["key"])] == sample["change"]
    assert {(sample["day"], sample["key"]) for sample in samples} == {
        (day, key) for (day, key, name) in expected if name in set(changes.values())
    }


def test_what_one_population_cannot_decide_is_neither_gained_nor_lost() -> None:
    large = "for $m in /m return <r>{ $m/a }</r>"
    before = SubscriptionSet({"costly": "/m", "plain": "/m"})
    after = SubscriptionSet({"costly": large}, limits=Limits(result_bytes_max=100))
    numbers, samples, totals, rejected = counted([before, after], [[("1", b"<m>" + b"<a/>" * 500 + b"</m>", NOON)]])
    day = NOON.date()
    assert numbers == {
        (day, "costly", "before"): 1,
        (day, "costly", "undecided"): 1,
        (day, "plain", "before"): 1,
        (day, "plain", "lost"): 1,
    }
    assert [(sample["key"], sample["change"]) for sample in samples] == [("plain", "lost")]
    assert rejected == ["1"]
    assert totals["rejected"] == 0


def test_samples_are_bounded_and_show_the_payload() -> None:
    sets = [SubscriptionSet({"r": "for $m in /m return <r>{ $m/text() }</r>"}), SubscriptionSet({"r": "/m"})]
    messages = [(str(n), b"<m>" + b"x" * 2_000 + b"</m>", NOON) for n in range(9)]
    numbers, samples, _, _ = counted(sets, [messages[:5], messages[5:]])
    assert numbers[NOON.date(), "r", "changed"] == 9
    assert [(sample["message_id"], sample["after"]) for sample in samples] == [("0", None), ("1", None)]
    assert samples[0]["before"] == "<r>" + "x" * 997


@pytest.mark.parametrize(
    ("path", "xml", "time"),
    [
        ("/m/@at", "<m at='2026-03-01T23:30:00-02:00'/>", dt.datetime(2026, 3, 2, 1, 30, tzinfo=dt.UTC)),
        ("//at", "<m><x><at> 2026-03-01 </at></x><at>2027-01-01</at></m>", NOON.replace(hour=0)),
        ("//d", "<m><d>Sun, 01 Mar 2026 12:00:00 GMT</d></m>", NOON),
        ("//@norm", "<m norm='20260301T120000+0000'/>", NOON),
        ("//d", "<m><d>yesterday</d></m>", None),
        ("//d", "<m/>", None),
        ("//d", "<m>", None),
        ("//d[. = '&amp;']", "<m><d>&amp;</d></m>", None),
    ],
)
def test_times_are_read_from_messages(path: str, xml: str, time: dt.datetime | None) -> None:
    messages = batch([("first", b"<m/>", None), ("second", xml.encode(), None)])
    assert TimeReader(path).times(messages, COLUMNS).to_pylist() == [None, time]


def test_a_path_to_the_time_may_have_prefixes_and_must_be_a_path() -> None:
    messages = batch([("1", b"<m xmlns='urn:m'><d>2026-03-01T12:00:00Z</d></m>", None)])
    assert TimeReader("//p:d", {"p": "urn:m"}).times(messages, COLUMNS).to_pylist() == [NOON]
    for other in ("count(//a)", "//a = 3", "for $a in //a return <b/>"):
        with pytest.raises(PipelineError, match=r"must be a path to it, such as //pubDate .*is none$"):
            TimeReader(other)
    with pytest.raises(PipelineError, match="column 5: the query ends after") as refused:
        TimeReader("//a[")
    assert str(refused.value).endswith("\n    //a[\n        ^")
