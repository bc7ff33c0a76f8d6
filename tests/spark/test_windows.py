"""Windows on Spark against the model that judges library and broker: a batch job, and a stream with a watermark."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.seeds import printed_seed
from tests.spark.streamed_files import set_order
from tests.windows.histories import QUERY, History, history, message
from tests.windows.model import told
from twigcast import SubscriptionSet
from twigcast.errors import WindowError
from twigcast.limits import Limits
from twigcast.spark import window_messages
from twigcast.spark.session import changed_settings
from twigcast.spark.state import STATE_SETTINGS
from twigcast.spark.window_rows import PackedEvent, WindowedSubscription, WindowGroup, WindowTables
from twigcast.windows.declarations import read_window
from twigcast.windows.expressions import WindowTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGAN = 90
DDL = "message_id string, xml string, at timestamp"

Said = dict[tuple[str, str], list[tuple[str, int, tuple[str, ...]]]]
"""By subscription and value of ``by``: what its subscriber was told, when, and of which messages."""


def of_history(played: History, number: int) -> dict[str, object]:
    """Returns the window of one history among others, which looks at its own messages alone."""
    when = dict(played.when)
    if "sequence" in when:
        when["sequence"] = f"/m[@h = '{number}'][@second]"
    return when


def rows_of(histories: Mapping[int, History], until: int) -> list[tuple[str, str, datetime]]:
    """Returns the messages of all histories in the order in which they come, and one that only says what time it is."""
    rows = [
        (f"h{number}-{event.name}", message(key, event, has_time=played.has_time).replace("<m ", f'<m h="{number}" '),
         datetime.fromtimestamp(event.arrived, UTC))
        for number, played in histories.items()
        for key, event in played.events
    ]  # fmt: skip
    return [*sorted(rows, key=lambda row: row[2]), ("end", "<end/>", datetime.fromtimestamp(until, UTC))]


def expected(histories: Mapping[int, History], until: int) -> Said:
    said: Said = {}
    for number, played in histories.items():
        begun = BEGAN if played.window.kind == "absence" and not played.has_key else None
        for key in played.keys:
            lines = [
                (what, at, tuple(f"h{number}-{name}" for name in names))
                for what, at, names in told(played.window, played.of_key(key), until, begun).all
            ]
            if lines:
                said[f"s{number}", key] = sorted(lines)
    return said


def found(rows: Iterable[Mapping[str, Any]]) -> Said:
    said: Said = defaultdict(list)
    for row in rows:
        if row["action"] != "late":
            at = round(row["at"].astimezone(UTC).timestamp())
            said[row["key"], row["window_key"]].append((row["action"], at, tuple(row["stands_for"])))
    return {place: sorted(lines) for place, lines in said.items()}


def made(seed: int) -> tuple[dict[int, History], SubscriptionSet, dict[str, dict[str, object]], int]:
    histories = {number: history(seed + number) for number in range(40)}
    query = QUERY.replace("/m", "/m[@h = '{}']")
    population = SubscriptionSet({f"s{number}": query.format(number) for number in histories})
    when = {f"s{number}": of_history(played, number) for number, played in histories.items()}
    return histories, population, when, max(played.until for played in histories.values())


@pytest.mark.spark
def test_a_batch_job_tells_what_the_model_says(spark: SparkSession) -> None:
    seed = printed_seed() % 10**6
    histories, population, when, until = made(seed)
    rows = rows_of(histories, until)
    random.Random(seed).shuffle(rows)
    frame = spark.createDataFrame(rows, DDL).repartition(3)
    began = datetime.fromtimestamp(BEGAN, UTC)
    answers = window_messages(frame, population, when, published="at", began=began)
    assert found(row.asDict() for row in answers.collect()) == expected(histories, until)


@pytest.mark.spark
def test_a_stream_with_a_watermark_tells_what_the_model_says(spark: SparkSession, tmp_path: Path) -> None:
    seed = printed_seed() % 10**6
    rng = random.Random(seed)
    histories, population, when, until = made(seed)
    rows = rows_of(histories, until)
    (tmp_path / "in").mkdir()
    start = number = 0
    while start < len(rows):
        end = min(len(rows), start + rng.randrange(150, 400))
        while end < len(rows) and rows[end][2] == rows[end - 1][2]:
            end += 1  # what comes with the watermark comes too late for Spark
        part = [dict(zip(("message_id", "xml", "at"), row, strict=True)) for row in rows[start:end]]
        pq.write_table(pa.Table.from_pylist(part), tmp_path / "in" / f"{number:03}.parquet", coerce_timestamps="us")
        start, number = end, number + 1
    set_order(tmp_path / "in")
    stream = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    said: list[dict[str, Any]] = []

    def take(batch: DataFrame, _: int) -> None:
        said.extend(row.asDict() for row in batch.collect())

    with changed_settings(spark, STATE_SETTINGS):
        answers = window_messages(
            stream.withWatermark("at", "0 seconds"), population, when,
            published="at", began=datetime.fromtimestamp(BEGAN, UTC),
        )  # fmt: skip
        query = answers.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    assert found(said) == expected(histories, until)


class Timers:
    """The times of one group that are registered."""

    def __init__(self) -> None:
        self.times: set[int] = set()

    def wake(self, group: WindowGroup, now: float) -> list[dict[str, Any]]:
        """Lets a group do what is due, as Spark does: at each time that has come."""
        told: list[dict[str, Any]] = []
        for time in sorted(time for time in self.times if time <= now * 1000):
            self.times.discard(time)
            group.fired(time)
            told += group.wake(now)
        group.flush(self.times.add, int(now * 1000) + 1)
        return told


def test_a_group_tells_what_the_model_says_whenever_timers_run() -> None:
    seed = printed_seed() % 10**6
    for number in range(60):
        rng, played = random.Random(seed + number), history(seed + number)
        windowed = WindowedSubscription(read_window(played.when), SubscriptionSet({"s": QUERY})["s"], {})
        table: WindowTable[str] = WindowTable(Limits())
        table.put("s", windowed.window, {})
        registered = table.get("s")
        assert registered is not None
        tables, timers = {key: WindowTables.in_memory() for key in played.keys}, {key: Timers() for key in played.keys}
        said: list[dict[str, Any]] = []

        def opened(key: str) -> WindowGroup:
            return WindowGroup(("s", key), windowed, tables[key], Limits())  # noqa: B023

        if not played.has_key:
            group = opened("")
            group.begin(BEGAN)
            timers[""].wake(group, BEGAN)
        for key, event in played.events:
            if not event.is_first and not (event.is_second and played.window.kind == "sequence"):
                continue
            values = table.read(message(key, event, has_time=played.has_time).encode(), ["s"])
            assert values is not None
            place, made_event, _ = values.event(registered, event.name, event.arrived, is_first=event.is_first)
            assert place is not None
            group = opened(place)
            packed = PackedEvent(event.name, made_event, event.arrived, "<m/>", False, b"", None)
            said += group.enter(packed, event.arrived)
            said += timers[place].wake(group, event.arrived - 1 if rng.random() < 0.5 else event.arrived)
        for key in played.keys:
            said += timers[key].wake(opened(key), played.until)
        rows = [{**row, "at": datetime.fromtimestamp(row["at"] / 1e6, UTC)} for row in said]
        wanted = {("s", key): re_named(lines) for (_, key), lines in expected_of(played).items()}
        assert found(rows) == wanted, (seed + number, played)
        kept = [tables[key].kept for key in played.keys]
        left = [name for one in kept for name in one._values]  # type: ignore[attr-defined]
        assert not left, "digests that were sent leave nothing behind"


def expected_of(played: History) -> Said:
    return expected({0: played}, played.until)


def re_named(lines: list[tuple[str, int, tuple[str, ...]]]) -> list[tuple[str, int, tuple[str, ...]]]:
    return sorted((what, at, tuple(re.sub("^h0-", "", name) for name in names)) for what, at, names in lines)


def test_a_window_that_cannot_be_used_is_refused_before_anything_runs() -> None:
    from twigcast.spark.matching import MessageColumns
    from twigcast.spark.window_rows import EventPacker

    windowed = WindowedSubscription(read_window({"digest": "1 h", "by": "/m["}), SubscriptionSet({"s": "/m"})["s"], {})
    with pytest.raises(WindowError, match="by"):
        EventPacker({"s": windowed}, MessageColumns(), Limits())
