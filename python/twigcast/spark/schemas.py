"""The columns of inputs and outputs, as Arrow schemas and as Spark DDL.

Columns are strings wherever the bytes are certain to be UTF-8: Spark moves them through Python at twice the speed
of binary ones.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

MESSAGES: Final = pa.schema([("message_id", pa.string()), ("xml", pa.binary()), ("problem", pa.string())])
"""Messages. ``problem`` says why a message could not be read; ``xml`` then holds the bytes that could."""

METADATA: Final = pa.struct(
    [
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("modification_time", pa.timestamp("us", tz="UTC")),
        ("repairs", pa.int64()),
        ("line", pa.int64()),
        ("column", pa.int64()),
        ("added", pa.int64()),
    ]
)
"""Where a message comes from: its file, the bytes before it and its bytes there, and when the file was changed last.
Offset and length are null for what lies in archives or is compressed, and for documents that had to be converted.
``repairs`` is null unless messages are repaired. Of records that were read together, the
first one has those of all. ``line`` and ``column`` say where a record begins in its document, and ``added`` how many
characters at its start do not stand there: so places of errors are those of the document."""

PLACED_MESSAGES: Final = MESSAGES.append(pa.field("_metadata", METADATA))
"""Messages with the places where they were found."""

MATCHES: Final = pa.schema([("message_id", pa.string()), ("key", pa.string()), ("nodes", pa.int32())])
"""A row per message and subscription that matches it. ``nodes``: how many nodes it selects, or null."""

DELIVERIES: Final = pa.schema([("message_id", pa.string()), ("key", pa.string()), ("payload", pa.string())])
"""A row per message and subscription that rewrites it, with the rewritten fragment."""

RELATED_DELIVERIES: Final = DELIVERIES.append(pa.field("relation", pa.string()))
"""A row per message and subscription that gets it, if life cycles are followed: with what the message is to it, or null
if it has no life cycle. The payload is null where the message itself is what it gets."""

WINDOW_COLUMNS: Final = pa.schema(
    [
        ("action", pa.string()),
        ("window_key", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("stands_for", pa.list_(pa.string())),
        ("old", pa.string()),
        ("new", pa.string()),
    ]
)
"""What is known of a time that a subscriber is told: ``deliver`` for a message, ``release`` for a digest, ``absent``
where none came; the value of ``by``; when it followed; the ids of its messages; the values of ``changed``."""

WINDOW_DELIVERIES: Final = pa.schema([*DELIVERIES, *WINDOW_COLUMNS])
"""A row per time that the subscriber of a window is told, with the id of the last of its messages, or null if there is
none. The payload is null where the message itself is what it gets. Deliveries of other subscriptions are as ever, and
their columns of windows are null."""

REJECTED: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("reason", pa.string()),
        ("line", pa.int64()),
        ("column", pa.int64()),
        ("xml", pa.binary()),
    ]
)
"""A row per message that could not be processed, with its bytes unchanged."""

KINDS: Final = {"matches": MATCHES, "deliveries": DELIVERIES, "rejected": REJECTED}
"""Folder and schema of each output."""

POPULATION_VERSION: Final = pa.field("population_version", pa.int64())
"""The last column of each output, if the population lives: the version that the message was matched with."""


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """The columns that outputs have besides those of their kind."""

    has_versions: bool = False
    """Whether rows have the version of the population."""

    has_relations: bool = False
    """Whether deliveries have the relation of the message to its subscription."""

    has_windows: bool = False
    """Whether deliveries say what they tell of, and when that followed."""

    @property
    def of_deliveries(self) -> list[pa.Field]:
        """The columns that deliveries have, and no other output."""
        relation = [RELATED_DELIVERIES.field("relation")] if self.has_relations else []
        return relation + (list(WINDOW_COLUMNS) if self.has_windows else [])

    def schema_of(self, kind: str) -> pa.Schema:
        """Returns the schema of an output."""
        schema = KINDS[kind]
        if kind == "deliveries":
            schema = pa.schema([*schema, *self.of_deliveries])
        return schema.append(POPULATION_VERSION) if self.has_versions else schema


NO_COLUMNS: Final = AnswerColumns()

MESSAGES_DDL: Final = (
    "message_id string, xml binary, problem string, "
    "_metadata struct<path: string, offset: bigint, length: bigint, modification_time: timestamp, "
    "repairs: bigint, line: bigint, column: bigint, added: bigint>"
)

MATCH_ROWS: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("key", pa.string()),
        ("nodes", pa.int32()),
        ("payload", pa.string()),
        ("problem", pa.string()),
    ]
)
"""A row per message and subscription that matches it, with its payload; or per rejected message, with the problem."""

MATCH_ROWS_DDL: Final = "message_id string, key string, nodes int, payload string, problem string"
