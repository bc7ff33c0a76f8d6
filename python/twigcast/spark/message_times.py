"""The time of a message, read from the message itself, without Spark."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as ET

import pyarrow as pa

from twigcast.engine.session import EngineSession
from twigcast.errors import PipelineError, QueryError
from twigcast.limits import Limits
from twigcast.reading.dates import parse_date
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.subscription_items import checked_namespaces

_KEY: Final = "time"
_SECONDS_MAX: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_SECONDS_MIN: Final = datetime(1, 1, 2, tzinfo=UTC).timestamp()


class TimeReader:
    """A reader of the times that messages show, on the compiled engine.

    Args:
        path: The path to the time, such as ``/order/@at`` or ``//pubDate``; the first node in a message counts.
        namespaces: Prefix to namespace, for the path.
        limits: For messages.

    Raises:
        PipelineError: The path is refused.
    """

    def __init__(self, path: str, namespaces: Mapping[str, str] | None = None, limits: Limits | None = None) -> None:
        session = EngineSession.empty(limits or Limits(), is_quiet=True)
        prefixes = checked_namespaces(namespaces)
        must = "the time of a message must be a path to it, such as //pubDate or /order/@at"
        try:
            session.add(_KEY, path, prefixes, "xpath")  # its errors show the path as it was written
        except QueryError as error:
            raise PipelineError(f"{must}, not {path!r}: {error}") from None
        try:
            session.add(_KEY, f"for $t in {path} return <t>{{ string($t) }}</t>", prefixes, "xpath", replace=True)
        except QueryError:
            raise PipelineError(f"{must}, and {path!r} is none") from None
        self._matcher = BatchMatcher(session)

    def times(self, messages: pa.RecordBatch, columns: MessageColumns) -> pa.TimestampArray:
        """Returns the time of each message of a batch, null where there is none or it is in no form that is known."""
        numbered = messages.select([columns.message_id, columns.xml])
        rows = pa.array(range(messages.num_rows), pa.int64())
        numbered = pa.RecordBatch.from_arrays([rows, numbered.column(1)], names=["message_id", "xml"])
        times: list[datetime | None] = [None] * messages.num_rows
        for row, text in self._texts(numbered):
            times[row] = _time_of(text)
        return pa.array(times, pa.timestamp("us", "UTC"))

    def _texts(self, numbered: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        for answer in self._matcher.answers(numbered):
            found = answer.deliveries()
            for row, payload in zip(found.column("message_id"), found.column("payload"), strict=True):
                read = ET.fromstring(f"<ts>{payload.as_py()}</ts>")  # noqa: S314 - what the engine wrote
                yield int(row.as_py()), read[0].text or ""


def _time_of(text: str) -> datetime | None:
    seconds = parse_date(text)
    if seconds is None or not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        return None
    return datetime.fromtimestamp(seconds, UTC)
