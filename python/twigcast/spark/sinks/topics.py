"""The sink of Kafka topics: at least once, with ids by which readers tell what they had before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from twigcast.errors import OutputError
from twigcast.spark.schemas import WINDOW_COLUMNS
from twigcast.spark.sinks.frame_sink import FrameSink, RowOrigin

_HEADERS: Final = {
    "deliveries": {"message_id": "message_id", "subscription": "key"},
    "rejected": {"message_id": "message_id", "reason": "reason", "line": "line", "column": "`column`"},
}
"""By kind: the headers besides ``id``, ``run`` and ``batch``, with the columns whose values they have."""

_OF_WINDOWS: Final = {name: f"`{name}`" for name in WINDOW_COLUMNS.names}
"""The headers of deliveries that say what they tell of, with the columns whose values they have."""

_SPARK_SETS: Final = frozenset({"kafka.bootstrap.servers", "topic", "path"})


@dataclass(frozen=True, kw_only=True)
class KafkaTopics(FrameSink):
    """One Kafka topic for deliveries, and perhaps one for rejected messages.

    Each record has the payload, or the rejected message, as its value, and these headers: ``id``, ``message_id``,
    ``run``, ``batch``; of a delivery also ``subscription``, of a rejected message ``reason`` and, if known, ``line``
    and ``column``. Kafka gets the last micro-batch before a kill again. The ``id`` is the same then: it is made of the
    id of the message and the key of the subscription. If subscriptions have windows, what
    they tell of stands in headers, too.

    Raises:
        OutputError: No topic is named, or an option is one that the sink sets itself.
    """

    servers: str
    """The brokers: ``host:port``, several with commas."""

    deliveries: str | None = None
    """The topic of deliveries. A query that rewrites nothing has none, unless the pipeline has ``whole=True``."""

    rejected: str | None = None
    """The topic of rejected messages."""

    key: Literal["subscription", "message_id"] = "subscription"
    """What the key of a delivery is: Kafka keeps the order of records with the same one. That of a rejected message is
    its id."""

    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of Spark's Kafka sink, such as ``kafka.security.protocol``."""

    event_time: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if self.deliveries is None and self.rejected is None:
            raise OutputError(self.servers, "name a topic: KafkaTopics(servers=..., deliveries=TOPIC)")
        if self.key not in ("subscription", "message_id"):
            raise OutputError(self.servers, f"key must be subscription or message_id, not {self.key!r}")
        own = sorted(_SPARK_SETS & {name.lower() for name in self.options})
        if own:
            raise OutputError(self.servers, f"the option {own[0]} is set by servers, deliveries and rejected")

    def kinds(self) -> tuple[str, ...]:
        """Returns the kinds that have a topic."""
        topics = {"deliveries": self.deliveries, "rejected": self.rejected}
        return tuple(kind for kind, topic in topics.items() if topic is not None)

    def open(self, spark: SparkSession) -> None:
        """Raises an error if Spark has no connector to Kafka.

        Raises:
            OutputError: It has none.
        """
        try:
            nothing = spark.createDataFrame([], "value string")
            for kind in self.kinds():
                self._save(kind, nothing)
        except PySparkException as error:
            reason = str(error).partition("\n")[0]
            advice = f"start Spark with --packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            raise OutputError(self.servers, f"Spark cannot write to Kafka: {reason} ({advice})") from error

    def write(self, kind: str, rows: DataFrame, origin: RowOrigin) -> None:
        """Sends a record for each row."""
        self._save(kind, self.records(kind, rows))

    def records(self, kind: str, rows: DataFrame) -> DataFrame:
        """Returns the records of rows of a kind: ``key``, ``value``, ``headers``."""
        headers = {**_HEADERS[kind], "run": "run", "batch": "batch"}
        headers |= {name: name for name in ("population_version", "relation") if name in rows.columns}
        if kind == "deliveries" and "action" in rows.columns:
            headers |= {**_OF_WINDOWS, "stands_for": "if(action is null, null, to_json(stands_for))"}
        named = [f"named_struct('key', 'id', 'value', cast({_id(kind, rows)} as binary))"]
        named += [
            f"named_struct('key', '{name}', 'value', cast(cast({column} as string) as binary))"
            for name, column in headers.items()
        ]
        value, key = ("payload", "key") if kind == "deliveries" else ("xml", "message_id")
        if self.key == "message_id":
            key = "message_id"
        known = f"filter(array({', '.join(named)}), header -> header.value is not null)"
        return rows.selectExpr(f"{key} key", f"{value} value", f"{known} headers")

    def _save(self, kind: str, records: DataFrame) -> None:
        topic = self.deliveries if kind == "deliveries" else self.rejected
        assert topic is not None
        writer = records.write.format("kafka").options(**self.options)
        writer.option("kafka.bootstrap.servers", self.servers).option("topic", topic).save()


def _id(kind: str, rows: DataFrame) -> str:
    """Returns the expression for the id of a record, which is the same when its micro-batch is run again."""
    subscription = "key" if kind == "deliveries" else "''"
    # Who got a message learns under its id that it has expired: that is another record.
    further = ", if(relation <=> 'expired', '\\nexpired', '')" if "relation" in rows.columns else ""
    if "action" in rows.columns:
        # Several windows may be told of one message, and silence of none.
        parts = "concat_ws('\\n', action, window_key, cast(unix_micros(at) as string), to_json(stands_for))"
        further = f", if(action is null, '', concat('\\n', {parts}))"
    return f"sha2(concat(coalesce(message_id, ''), '\\n', {subscription}{further}), 256)"
