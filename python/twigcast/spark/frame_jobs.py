"""One Spark job whose answers Spark writes: messages are matched once, then the answers of each kind are written."""

from typing import Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import expr

from twigcast.errors import SourceError
from twigcast.spark.match import match_messages
from twigcast.spark.schemas import KINDS
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
    answers = _answers(messages, snapshot, sink, nodes=nodes).persist()
    try:
        numbers = Observation(OBSERVATION)
        counted = [expr(number).cast("bigint").alias(name) for name, number in _NUMBERS.items()]
        counted.append(expr(f"max({snapshot.subscriptions}L)").alias("subscriptions"))
        answers.observe(numbers, *counted).selectExpr("count(1)").collect()
        done = {name: int(numbers.get[name] or 0) for name in _NUMBERS}
        for kind in ("deliveries", "rejected", "matches"):
            if kind in sink.kinds() and (done[kind] or origin.may_be_there):
                sink.write(kind, _rows(answers, kind, origin), origin)
    finally:
        answers.unpersist()
    return TaskReport(0, 0, **done)


def _answers(messages: DataFrame, snapshot: Snapshot, sink: FrameSink, *, nodes: bool) -> DataFrame:
    """Returns a row per message: its id, times and size, and what was found."""
    name = "the DataFrame of messages"
    if sink.event_time is not None and sink.event_time not in messages.columns:
        found = ", ".join(messages.columns)
        raise SourceError(name, f"there is no column {sink.event_time}; the columns are {found}")
    time = "current_timestamp()" if sink.event_time is None else f"cast(`{sink.event_time}` as timestamp)"
    timed = messages.withColumn("event_time", expr(time))
    read = check_columns(timed, name, further=["event_time"])
    repairs = "cast(_metadata.repairs as bigint)" if "_metadata" in read.columns else "cast(0 as bigint)"
    sized = read.selectExpr("*", "cast(octet_length(xml) as bigint) bytes", f"{repairs} repairs")
    answers = match_messages(sized, snapshot, nodes=nodes)
    return answers.select("message_id", "event_time", "bytes", "repairs", "matches", "deliveries", "rejected")


def _rows(answers: DataFrame, kind: str, origin: RowOrigin) -> DataFrame:
    """Returns the rows of one kind, with their origin."""
    rows = answers.where("rejected is not null") if kind == "rejected" else answers
    rows = rows.selectExpr("message_id", "event_time", *_ROWS[kind])
    columns = [f"`{name}`" for name in KINDS[kind].names]
    day = "to_date(to_utc_timestamp(event_time, current_timezone())) day"
    return rows.selectExpr(
        *columns, f"'{_quoted(origin.run)}' run", f"cast({origin.batch} as bigint) batch", "event_time", day
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
