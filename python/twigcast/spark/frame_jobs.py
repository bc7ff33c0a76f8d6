"""One Spark job whose answers Spark writes: messages are matched once, then the answers of each kind are written."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import expr

from twigcast.errors import SourceError
from twigcast.spark.match import match_messages
from twigcast.spark.schemas import NO_COLUMNS, AnswerColumns
from twigcast.spark.sinks.frame_sink import FrameSink, RowOrigin
from twigcast.spark.snapshots import Snapshot
from twigcast.spark.sources.source import check_columns
from twigcast.spark.summary import TaskReport

OBSERVATION: Final = "twigcast"
"""The name under which Spark's listeners find the numbers of a job."""

_NUMBERS: Final = {
    "messages": "count(1)",
    "matches": "coalesce(sum(size(matches)), 0)",
    "deliveries": "coalesce(sum(size(deliveries)), 0)",
    "rejected": "count(rejected)",
    "bytes": "coalesce(sum(bytes), 0)",
    "repairs": "coalesce(sum(repairs), 0)",
}
KEPT: Final = ("message_id", "event_time", "bytes", "repairs")
"""The columns of messages that come out again."""

# What is over by the time, or is told of several messages, has a row, and is no message.
_NUMBERS_OF_STATEFUL: Final = {**_NUMBERS, "messages": "count(bytes)"}
_NUMBERS_OF_RELATED: Final = {
    **_NUMBERS_OF_STATEFUL,
    "not_repeated": "count_if(effect in ('duplicate', 'superseded'))",
    "unidentified": "count_if(trouble is not null)",
}
_NUMBERS_OF_WINDOWED: Final = {
    **_NUMBERS_OF_STATEFUL,
    "overdue": "coalesce(sum(overdue), 0)",
    "untimed": "coalesce(sum(untimed), 0)",
}
_ROWS: Final = {
    "matches": ["inline(matches)"],
    "deliveries": ["inline(deliveries)"],
    "rejected": ["rejected.*"],
}


def run_frame_job(
    messages: DataFrame, snapshot: Snapshot, sink: FrameSink, origin: RowOrigin, *, nodes: bool = False
) -> TaskReport:
    """Matches messages, writes the answers to a sink, and returns the numbers.

    The answers are kept in the memory of the executors, or on their disks, until all kinds have been written. Matches
    come last: who has seen those of a micro-batch finds its other answers.
    """
    answers = match_messages(sized_messages(messages, sink), snapshot, nodes=nodes)
    wanted = ("message_id", "event_time", "bytes", "repairs", "matches", "deliveries", "rejected")
    return write_answers(answers.select(*wanted), snapshot, sink, origin)


def write_answers(
    answers: DataFrame, snapshot: Snapshot, sink: FrameSink, origin: RowOrigin, *, columns: AnswerColumns = NO_COLUMNS
) -> TaskReport:
    """Writes answers to a sink, and returns the numbers.

    Args:
        answers: A row per message: its id, times and size, and what was found.
        snapshot: What the messages were matched with.
        sink: The sink.
        origin: The run and the micro-batch.
        columns: What answers have besides, as with life cycles or windows.
    """
    origin = replace(origin, population_version=snapshot.population_version)
    wanted = _NUMBERS
    if columns.has_relations:
        wanted = _NUMBERS_OF_RELATED
    elif columns.has_windows:
        wanted = _NUMBERS_OF_WINDOWED
    answers = answers.persist()
    try:
        numbers = Observation(OBSERVATION)
        counted = [expr(number).cast("bigint").alias(name) for name, number in wanted.items()]
        counted.append(expr(f"max({snapshot.subscriptions}L)").alias("subscriptions"))
        answers.observe(numbers, *counted).selectExpr("count(1)").collect()
        done = {name: int(numbers.get[name] or 0) for name in wanted}
        for kind in ("deliveries", "rejected", "matches"):
            if kind in sink.kinds() and (done[kind] or origin.may_be_there):
                sink.write(kind, _rows(answers, kind, origin, columns), origin)
    finally:
        answers.unpersist()
    return TaskReport(0, 0, **done)


def sized_messages(messages: DataFrame, sink: FrameSink, further: Sequence[str] = ()) -> DataFrame:
    """Returns the columns of messages that count, their times and sizes, and `further` ones.

    Raises:
        SourceError: A column is missing.
    """
    name = "the DataFrame of messages"
    if sink.event_time is not None and sink.event_time not in messages.columns:
        found = ", ".join(messages.columns)
        raise SourceError(name, f"there is no column {sink.event_time}; the columns are {found}")
    time = "current_timestamp()" if sink.event_time is None else f"cast(`{sink.event_time}` as timestamp)"
    timed = messages.withColumn("event_time", expr(time))
    read = check_columns(timed, name, further=["event_time", *(one for one in further if one != "event_time")])
    repairs = "cast(_metadata.repairs as bigint)" if "_metadata" in read.columns else "cast(0 as bigint)"
    return read.selectExpr("*", "cast(coalesce(octet_length(xml), 0) as bigint) bytes", f"{repairs} repairs")


def _rows(answers: DataFrame, kind: str, origin: RowOrigin, further: AnswerColumns) -> DataFrame:
    """Returns the rows of one kind, with their origin."""
    rows = answers.where("rejected is not null") if kind == "rejected" else answers
    # What is over by the time happened now.
    rows = rows.selectExpr("message_id", "coalesce(event_time, current_timestamp()) event_time", *_ROWS[kind])
    columns = [f"`{name}`" for name in replace(further, has_versions=False).schema_of(kind).names]
    day = "to_date(to_utc_timestamp(event_time, current_timezone())) day"
    version = origin.population_version
    versions = [] if version is None else [f"cast({version} as bigint) population_version"]
    run, batch = f"'{_quoted(origin.run)}' run", f"cast({origin.batch} as bigint) batch"
    return rows.selectExpr(*columns, run, batch, "event_time", day, *versions)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
