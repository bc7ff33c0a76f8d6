"""The columns of inputs and outputs, as Arrow schemas and as Spark DDL.

Columns are strings wherever the bytes are certain to be UTF-8: Spark moves them through Python at twice the speed
of binary ones.
"""

from typing import Final

import pyarrow as pa

MESSAGES: Final = pa.schema([("message_id", pa.string()), ("xml", pa.binary()), ("problem", pa.string())])
"""Messages. ``problem`` says why a message could not be read; ``xml`` then holds the bytes that could."""

MATCHES: Final = pa.schema([("message_id", pa.string()), ("key", pa.string()), ("nodes", pa.int32())])
"""A row per message and subscription that matches it. ``nodes``: how many nodes it selects, or null."""

DELIVERIES: Final = pa.schema([("message_id", pa.string()), ("key", pa.string()), ("payload", pa.string())])
"""A row per message and subscription that rewrites it, with the rewritten fragment."""

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

MESSAGES_DDL: Final = "message_id string, xml binary, problem string"

ANSWERS_DDL: Final = (
    "message_id string, "
    "matches array<struct<key: string, nodes: int>>, "
    "deliveries array<struct<key: string, payload: string>>, "
    "rejected struct<reason: string, line: bigint, column: bigint, xml: binary>"
)
"""A row per message, as :func:`twigcast.spark.match_messages` returns them."""
