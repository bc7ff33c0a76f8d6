"""Envelopes around many payloads at once, without Spark."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine.session import EngineSession
from twigcast.envelope import ESCAPES, Envelope


class EnvelopeWriter:
    """A writer of envelopes around the payloads of one subscription set.

    Args:
        envelope: The envelope.
        session: The engine session of the set, which does not change meanwhile.
        keys: The keys of the set, by slot.
    """

    def __init__(self, envelope: Envelope, session: EngineSession, keys: pa.StringArray) -> None:
        self._envelope = envelope
        self._keys = keys
        self._queries = None if envelope.query is None else _escaped(_queries(session, keys))
        """By slot, escaped for the attribute."""
        self._lengths = None if self._queries is None else pc.binary_length(self._queries)

    def query_bytes(self, slots: pa.Int32Array) -> int:
        """Returns the bytes of the queries of these subscriptions; 0 if envelopes do not name the query."""
        return 0 if self._lengths is None else int(pc.sum(self._lengths.take(slots)).as_py() or 0)

    def wrap(self, payloads: pa.StringArray, ids: pa.StringArray, slots: pa.Int32Array) -> pa.StringArray:
        """Returns payloads in envelopes, each with the id of its message and the slot of its subscription."""
        envelope = self._envelope
        query = []
        if self._queries is not None:
            query = [envelope.before_query, self._queries.take(slots).cast(pa.string())]
        start = [envelope.opening, _escaped(ids), envelope.between, _escaped(self._keys.take(slots)), *query, '">']
        return pc.binary_join_element_wise(*start, payloads, envelope.end, "")


def _queries(session: EngineSession, keys: pa.StringArray) -> pa.LargeStringArray:
    """Returns the queries as they were written, by slot; null if there is no subscription."""
    stored = (session.engine.query(key) for key in keys.to_pylist())
    return pa.array([None if query is None else query.query for query in stored], pa.large_string())


def _escaped(values: pa.StringArray) -> pa.StringArray:
    """Returns values escaped for an attribute, as :meth:`Envelope.start` does it."""
    for character, reference in {"&": "&amp;", "<": "&lt;", ">": "&gt;", **ESCAPES}.items():
        values = pc.replace_substring(values, character, reference)
    return pc.replace_substring_regex(values, _NO_CHARACTER, "\N{REPLACEMENT CHARACTER}")


_NO_CHARACTER: Final = r"[^\t\n\r\x{20}-\x{D7FF}\x{E000}-\x{FFFD}\x{10000}-\x{10FFFF}]"
"""The characters that XML excludes, in the notation of RE2."""
