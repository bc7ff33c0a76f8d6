"""Pipelines whose subscribers are told when their windows say so, against the library."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.seeds import printed_seed
from tests.spark.test_frame_pipeline import KeptSink
from twigcast import SubscriptionSet, Windows
from twigcast.cli import common
from twigcast.envelope import Envelope
from twigcast.errors import PipelineError, RefusedSubscriptions, SubscriptionFileError, UnknownKey
from twigcast.limits import Limits
from twigcast.spark import (
    DeltaTables,
    LifecycleSettings,
    LivingPopulation,
    Stream,
    WindowSettings,
    living,
    run_pipeline,
)
from twigcast.spark.followed_settings import checked_settings
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.spark.population import PopulationInput
from twigcast.spark.schemas import AnswerColumns
from twigcast.spark.shipped_windows import ShippedWindows, windowed
from twigcast.spark.window_rows import EventPacker, WindowedSubscription, WindowGroup, WindowTables, play
from twigcast.spark.windowed_rows import AnswerPacker, WindowedAnswer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "plain": "/m",
    "rewriting": "for $m in /m[@v > 4] return <r>{$m/@n}</r>",
    "three": "/m[@v > 2]",
    "pair": "/m[@v = 1]",
    "change": "for $m in /m return <c from='{$old}' to='{$new}'/>",
    "all": "for $m in /m[@v > 3] return <d>{$m/@n}</d>",
    "whole": "/m[@v < 3]",
}
WHEN: dict[str, dict[str, object]] = {
    "three": {"at_least": 3, "within": "10 min", "by": "/m/@k"},
    "pair": {"sequence": "/m[@v = 5]", "within": "5 min"},
    "change": {"changed": "/m/@v", "by": "/m/@k"},
    "all": {"digest": "7 min", "by": "/m/@k"},
    "whole": {"digest": "11 min"},
}
BEGAN = datetime(2026, 11, 30, 2, tzinfo=UTC).timestamp()
Told = list[tuple[object, ...]]


def population() -> SubscriptionSet:
    made = SubscriptionSet({key: query for key, query in QUERIES.items() if key != "change"})
    made.add("change", QUERIES["change"], params={"old": "", "new": ""})
    return made


def messages(count: int) -> list[tuple[str, bytes, float]]:
    """Messages with ids and the times when they came, in order."""
    rng, at, made = random.Random(printed_seed()), BEGAN, []
    for number in range(count):
        at += rng.randrange(1, 90)
        text = f"<?xml version='1.0'?><m n='{number}' k='{rng.choice('ab')}' v='{rng.randrange(6)}' t='{stamp(at)}'/>"
        made.append((f"m{number}", text.encode(), at))
    return made


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def expected(sent: list[tuple[str, bytes, float]], until: float, *, whole: bool) -> Told:
    """What the library tells."""
    windows = Windows(population(), WHEN)
    rows: Told = []
    for message_id, xml, at in sent:
        for one in windows.deliver(xml, message_id=message_id, published=datetime.fromtimestamp(at, UTC)).deliveries:
            is_told = one.action is not None or one.rewritten or whole
            rows += [row(one)] if is_told else []
    rows += map(row, windows.due(datetime.fromtimestamp(until, UTC)))
    return sorted(rows, key=str)


def row(one: Any) -> tuple[object, ...]:
    ids = one.stands_for
    message_id = ids[-1] if ids else None
    if one.action is None:
        return (message_id, one.key, None, None, None)
    return (message_id, one.key, one.action.value, one.window_key, (*ids, one.old, one.new))


def found(rows: list[dict[str, Any]]) -> Told:
    return sorted(
        (
            (one["message_id"], one["key"], one["action"], one["window_key"], None if one["action"] is None
             else (*one["stands_for"], one["old"], one["new"]))
            for one in rows
        ),
        key=str,
    )  # fmt: skip


Windowed = dict[str, WindowedSubscription]
Groups = dict[tuple[str, str], WindowTables]


def played(windows: Windowed, batches: list[pa.RecordBatch], now: float, groups: Groups) -> Iterator[WindowedAnswer]:
    """What the tasks that keep state make of rows, and what is due by then."""
    rows = [one for batch in batches for one in batch.to_pylist()]
    packed = []
    for one in sorted(rows, key=itemgetter("moment", "place")):
        place = one["key"], one["window_key"]
        group = WindowGroup(place, windows.get(place[0]), groups.setdefault(place, WindowTables.in_memory()), Limits())
        packed += [pickle.dumps(moved) for moved in play(group, one["packed"], now)]
        group.flush(lambda _: None, 0)
    for place, tables in groups.items():
        group = WindowGroup(place, windows.get(place[0]), tables, Limits())
        packed += [pickle.dumps(told) for told in group.wake(now)]
        group.flush(lambda _: None, 0)
    yield from WindowedAnswer.of(pa.array(packed, pa.binary()))


@pytest.mark.parametrize("whole", [False, True])
def test_rows_of_a_pipeline_say_what_the_library_tells(whole: bool) -> None:
    sent = messages(200)
    made = population()
    windows = {key: windowed(made[key], one) for key, one in WHEN.items()}
    events = EventPacker(windows, MessageColumns(), Limits(), clock=("/m/@t", {}), whole=whole)
    packer = AnswerPacker(windows, events, files=False)
    matcher = BatchMatcher(made._session, whole=whole)
    xml = [text for _, text, _ in sent] + [b"<broken"]
    batch = pa.RecordBatch.from_pydict({"message_id": [name for name, _, _ in sent] + ["bad"], "xml": xml})
    packed = list(packer.pack(matcher, batch, MessageColumns(), "0"))
    until = sent[-1][2] + 3_600
    answers = list(played(windows, packed, until, {}))
    rows = [one for answer in answers for one in answer.deliveries().to_pylist()]
    assert found(rows) == expected(sent, until, whole=whole)
    matched = [(name, key) for name, text, _ in sent for key in made.match(text).keys]
    kept = [one for answer in answers for part in answer.matches() for one in part.to_pylist()]
    assert sorted((one["message_id"], one["key"]) for one in kept) == sorted(matched)
    (rejected,) = [one for answer in answers for one in answer.rejected().to_pylist()]
    assert (rejected["message_id"], rejected["xml"]) == ("bad", b"<broken")
    sums = [answer.counts() for answer in answers]
    assert sum(one["messages"] for one in sums) == 201
    assert sum(one["bytes"] for one in sums) == sum(map(len, xml))
    for one in rows:
        if one["action"] == "deliver" and not QUERIES[one["key"]].startswith("for"):
            assert (one["payload"] is not None) == whole


def silence(when: dict[str, object], rows: AnswerPacker | None, at: float, groups: Groups) -> list[str]:
    """Who is told of silence, by a time, in a stream whose windows may begin now."""
    windows = {"silent": windowed(SubscriptionSet({"silent": "/m"})["silent"], when)}
    batches = [] if rows is None else [rows.begun(ShippedWindows("1", "file", at))]
    answers = played(windows, batches, at, groups)
    return [one["payload"] for answer in answers for one in answer.deliveries().to_pylist()]


def test_silence_counts_from_the_beginning_of_a_subscription_once() -> None:
    def packer(when: dict[str, object]) -> AnswerPacker:
        windows = {"silent": windowed(SubscriptionSet({"silent": "/m"})["silent"], when)}
        return AnswerPacker(windows, EventPacker(windows, MessageColumns(), Limits()), files=False)

    hour: dict[str, object] = {"absence": "1 h"}
    day: dict[str, object] = {"absence": "1 d"}
    groups: Groups = {}
    assert silence(hour, packer(hour), BEGAN, groups) == []
    assert silence(hour, packer(hour), BEGAN + 1_800, groups) == [], "it has begun before"
    (told,) = silence(hour, None, BEGAN + 3_600, groups)
    assert 'since="2026-11-30T02:00:00Z"' in told
    assert silence(hour, packer(hour), BEGAN + 7_200, groups) == []
    assert silence(hour, None, BEGAN + 20_000, groups) == [], "of each silence once"
    assert silence(day, packer(day), BEGAN + 20_000, groups) == []
    (told,) = silence(day, None, BEGAN + 20_000 + 86_400, groups)
    assert stamp(BEGAN + 20_000)[:19] in told, "another window begins anew"


def test_what_is_known_of_a_window_that_is_no_more_is_forgotten() -> None:
    tables, subscription = WindowTables.in_memory(), SubscriptionSet({"s": "/m"})["s"]
    digest = windowed(subscription, {"digest": "1 h"})
    packer = EventPacker({"s": digest}, MessageColumns(), Limits())
    batch = pa.RecordBatch.from_pydict({"message_id": ["a", "b"], "xml": ["<m/>", "<m/>"]})
    (rows,) = packer.pack(BatchMatcher(SubscriptionSet({"s": "/m"})._session), batch)
    group = WindowGroup(("s", ""), digest, tables, Limits())
    for one in rows.to_pylist():
        assert not list(play(group, one["packed"], BEGAN))
    group.flush(lambda _: None, 0)
    assert tables.kept._values  # type: ignore[attr-defined]
    group = WindowGroup(("s", ""), None, tables, Limits())
    assert not list(group.wake(BEGAN + 10_000))
    group.flush(lambda _: None, 0)
    assert not tables.kept._values  # type: ignore[attr-defined]
    assert tables.state.get("state") is None


def test_what_is_not_possible_is_refused_before_anything_runs(tmp_path: Path) -> None:
    windows, cycles = WindowSettings(usual={"digest": "1 h"}), LifecycleSettings(profile="cap")
    file = tmp_path / "subscriptions.jsonl"
    file.write_text(json.dumps({"key": "s", "query": "//m", "when": {"digest": "1 h"}}))
    assert checked_settings(file, None, None, None) == WindowSettings()
    with pytest.raises(PipelineError, match="life cycles: run a pipeline for each"):
        checked_settings(file, cycles, None, None)
    with pytest.raises(PipelineError, match="let the query make the element"):
        checked_settings(file, None, None, Envelope("e"))
    with LivingPopulation(tmp_path / "living") as population, pytest.raises(PipelineError, match="as a file or a set"):
        checked_settings(population, None, windows, None)
    with pytest.raises(UnknownKey):
        checked_settings(SubscriptionSet(), None, WindowSettings(when={"s": {"digest": "1 h"}}), None)
    with pytest.raises(ValueError, match="not both"):
        WindowSettings(published="at", time="/m/@at")
    with pytest.raises(SubscriptionFileError, match="begin a pipeline with windows"):
        PopulationInput(file).load()
    assert common.advice("begin with windows=WindowSettings()") == "begin with --windows"
    assert PopulationInput(file, without_windows=True).load().passed_over == 1
    (row,) = living._file_records(str(file))
    assert "a population that lives have no windows" in str(row["error"])
    file.write_text(json.dumps({"key": "s", "query": "//m[. = 'when']", "params": {"x": "when"}}))
    assert checked_settings(file, cycles, None, None) is cycles


def test_tables_of_deliveries_have_the_columns_of_windows() -> None:
    sink = DeltaTables(database="lake").with_columns(AnswerColumns(has_windows=True))
    assert sink._kind_columns()["deliveries"] == (
        "message_id string, key string, payload string, `action` string, `window_key` string, `at` timestamp, "
        "`stands_for` array<string>, `old` string, `new` string"
    )


@pytest.mark.parametrize("when", [{"digest": "1 s", "by": "/m["}, {"digests": "1 h"}, "hourly"])
def test_a_subscription_whose_window_is_refused_is_a_refused_subscription(when: object, tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    rows = [{"key": "good", "query": "//m", "when": {"digest": "1 h"}}, {"key": "bad", "query": "//m", "when": when}]
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    with pytest.raises(RefusedSubscriptions, match="bad"):
        PopulationInput(file, windows=WindowSettings()).load()
    loaded = PopulationInput(file, windows=WindowSettings(), on_bad="skip").load()
    assert (list(loaded.subscriptions), list(loaded.windows), [key for key, _ in loaded.refused]) == (
        ["good"], ["good"], ["bad"]
    )  # fmt: skip


@pytest.mark.spark
def test_a_batch_job_writes_what_the_library_tells(spark: SparkSession) -> None:
    sent = messages(40)
    rows = [(name, xml.decode(), datetime.fromtimestamp(at, UTC)) for name, xml, at in sent]
    frame = spark.createDataFrame(rows, "message_id string, xml string, at timestamp").repartition(2)
    sink = KeptSink(event_time="at")
    settings = WindowSettings(when=WHEN, published="at")
    summary = run_pipeline(frame, population(), sink=sink, windows=settings, spark=spark)
    assert found(sink.rows["deliveries"]) == expected(sent, time.time(), whole=False)
    assert (summary.messages, summary.deliveries) == (40, len(sink.rows["deliveries"]))


def write_rows(path: Path, rows: dict[str, dict[str, object] | None]) -> None:
    lines = [{"key": key, "query": "/m", **({} if when is None else {"when": when})} for key, when in rows.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.spark
def test_a_stream_goes_on_where_it_was_and_forgets_windows_that_changed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    now = time.time() - 100
    file, when = tmp_path / "subscriptions.jsonl", {"at_least": 2, "within": "1 d"}
    runs: list[tuple[dict[str, dict[str, object] | None], int]] = [
        ({"two": when, "other": when}, 1),
        ({"two": when, "other": {**when, "at_least": 3}, "added": {"changed": "/m/@n"}}, 3),
    ]
    number = 0
    for rows, count in runs:
        write_rows(file, rows)
        for _ in range(count):
            text = f"<m n='{number}' t='{stamp(now + number)}'/>"
            (tmp_path / "in" / f"m{number}").write_text(text)
            number += 1
        summary = run_pipeline(
            tmp_path / "in", file, tmp_path / "out",
            stream=Stream(once=True), windows=WindowSettings(time="/m/@t"), spark=spark,
        )  # fmt: skip
    told = pq.read_table(tmp_path / "out" / "deliveries").to_pylist()
    assert sorted((one["key"], *one["stands_for"]) for one in told) == [
        ("added", "m1", "m2"), ("added", "m2", "m3"), ("other", "m1", "m2", "m3"), ("two", "m0", "m1"),
        ("two", "m2", "m3"),
    ]  # fmt: skip
    assert (summary.messages, summary.deliveries) == (4, 5)
    write_rows(file, {"two": None})
    with pytest.raises(PipelineError, match="was begun with windows, and cannot go on without life cycles or windows"):
        run_pipeline(tmp_path / "in", file, tmp_path / "out", stream=Stream(once=True), spark=spark)


@pytest.mark.spark
def test_a_checkpoint_that_knows_nothing_of_what_came_before_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m0").write_text("<m/>")
    population, out = SubscriptionSet({"s": "/m"}), tmp_path / "out"
    run_pipeline(tmp_path / "in", population, out, stream=Stream(once=True), spark=spark)
    for followed, how in (
        ({"lifecycle": LifecycleSettings(profile="cap")}, "with life cycles"),
        ({"windows": WindowSettings(usual={"digest": "1 h"})}, "with windows"),
    ):
        with pytest.raises(PipelineError, match=f"begun without life cycles or windows, and cannot go on {how}"):
            run_pipeline(tmp_path / "in", population, out, stream=Stream(once=True), spark=spark, **followed)
    run_pipeline(tmp_path / "in", population, out, stream=Stream(once=True), spark=spark)


KILLED_STREAM = """
import sys
from pathlib import Path
from twigcast.spark import Stream, WindowSettings, run_pipeline
from twigcast.spark.session import open_session

work = Path(sys.argv[1])
spark = open_session("local[2]", log=work / "spark.log")
stream = Stream(once=True) if sys.argv[2] == "once" else Stream(interval_seconds=0.05, files_per_batch=7)
settings = WindowSettings(time="/m/@t")
run_pipeline(work / "in", work / "subscriptions.jsonl", work / "out", stream=stream, windows=settings, spark=spark)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_killed_at_random_moments_tells_of_each_window_once(tmp_path: Path) -> None:
    """What is known of windows is that of the messages that the tables have, whenever the driver is killed."""
    chance = random.Random(printed_seed())
    when: dict[str, dict[str, object]]
    when = {"three": {"at_least": 3, "within": "1 d", "by": "/m/@k"}, "change": {"changed": "/m/@v", "by": "/m/@k"}}
    write_rows(tmp_path / "subscriptions.jsonl", when)  # type: ignore[arg-type]  # none is without a window
    (tmp_path / "stream.py").write_text(KILLED_STREAM)
    (tmp_path / "in").mkdir()
    began, sent = time.time() - 1_000, list[tuple[str, float]]()

    def send(count: int) -> None:
        for number in range(len(sent), len(sent) + count):
            at = began + number
            text = f"<m k='{chance.choice('ab')}' v='{chance.randrange(3)}' t='{stamp(at)}'/>"
            (tmp_path / "in" / f"_{number}").write_text(text)
            (tmp_path / "in" / f"_{number}").rename(tmp_path / "in" / f"m{number:05}")
            sent.append((text, at))

    def told() -> int:
        return sum(pq.read_metadata(file).num_rows for file in (tmp_path / "out" / "deliveries").rglob("*.parquet"))

    command = [sys.executable, str(tmp_path / "stream.py"), str(tmp_path)]
    for _ in range(int(os.environ.get("TWIGCAST_TEST_KILLS", "1"))):
        send(20)
        before, deadline = told(), time.monotonic() + 120
        process = subprocess.Popen([*command, "on"], start_new_session=True)
        while told() == before and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
        end = time.monotonic() + 2 * chance.random()
        while time.monotonic() < end:
            send(1)
            time.sleep(0.05)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    send(5)
    subprocess.run([*command, "once"], check=True, timeout=300)
    windows, expected_rows = Windows(SubscriptionSet(dict.fromkeys(when, "/m")), when), list[tuple[str, ...]]()
    for number, (text, at) in enumerate(sent):
        published = datetime.fromtimestamp(at, UTC)
        answer = windows.deliver(text, message_id=f"m{number:05}", published=published)
        expected_rows += [(one.key, *one.stands_for) for one in answer.deliveries]
    rows = pq.read_table(tmp_path / "out" / "deliveries").to_pylist()
    assert sorted((one["key"], *one["stands_for"]) for one in rows) == sorted(expected_rows)
