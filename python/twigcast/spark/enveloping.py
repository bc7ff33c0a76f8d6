"""Envelopes around many payloads at once: no Spark in here."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.engine.session import EngineSession
from twigcast.envelope import ESCAPES, Envelope


class EnvelopeWriter:
    """Puts payloads into envelopes.

    Args:
        envelope: The envelope.
        session: The engine session of the subscription set; it is not changed while this is in use.
        keys: By slot, the keys of the set.
    """

    def __init__(self, envelope: Envelope, session: EngineSession, keys: pa.StringArray) -> None:
        self._envelope = envelope
        self._keys = keys
        self._queries = None if envelope.query is None else escaped(_queries(session, keys))
        """By slot, as they stand in the attribute."""
        self._lengths = None if self._queries is None else pc.binary_length(self._queries)

    def query_bytes(self, slots: pa.Int32Array) -> int:
        """Bytes of the queries of subscriptions, as often as they come; 0 if they are not told."""
        return 0 if self._lengths is None else int(pc.sum(self._lengths.take(slots)).as_py() or 0)

    def around(self, payloads: pa.StringArray, ids: pa.StringArray, slots: pa.Int32Array) -> pa.StringArray:
        """Payloads in their envelopes, each with the id of its message and the slot of its subscription."""
        envelope = self._envelope
        asked = []
        if self._queries is not None:
            asked = [envelope.before_query, self._queries.take(slots).cast(pa.string())]
        start = [envelope.opening, escaped(ids), envelope.between, escaped(self._keys.take(slots)), *asked, '">']
        return pc.binary_join_element_wise(*start, payloads, envelope.end, "")


def _queries(session: EngineSession, keys: pa.StringArray) -> pa.LargeStringArray:
    """By slot, the query as it was written; null where there is no subscription."""
    stored = (session.engine.query(key) for key in keys.to_pylist())
    return pa.array([None if query is None else query.query for query in stored], pa.large_string())


def escaped(values: pa.StringArray) -> pa.StringArray:
    """Values as they stand in an attribute, as :meth:`Envelope.start` writes them."""
    for character, reference in {"&": "&amp;", "<": "&lt;", ">": "&gt;", **ESCAPES}.items():
        values = pc.replace_substring(values, character, reference)
    return pc.replace_substring_regex(values, _NO_CHARACTER, "\N{REPLACEMENT CHARACTER}")


_NO_CHARACTER: Final = r"[^\t\n\r\x{20}-\x{D7FF}\x{E000}-\x{FFFD}\x{10000}-\x{10FFFF}]"
"""What XML cannot hold, in the notation of RE2."""
