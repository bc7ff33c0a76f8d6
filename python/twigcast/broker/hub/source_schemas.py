"""Finds subscriptions that no message of their tenant's sources can match, by the DTDs of these."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from twigcast.broker.model import Source
from twigcast.errors import TwigcastError
from twigcast.query_check import parsed_natively
from twigcast.registration import Dialect, Params

if TYPE_CHECKING:
    from twigcast.schema import Satisfiability

_log = logging.getLogger(__name__)

_NAMED_MAX: Final = 3
"""The most sources that a warning names."""


class SourceSchemas:
    """The DTDs of all sources, by tenant."""

    def __init__(self, sources: Iterable[Source]) -> None:
        """Takes the DTDs of sources; they are read when a query is asked about."""
        self._dtds: dict[int, dict[str, str | None]] = {}
        for source in sources:
            # What is looked up for messages is not in their DTD.
            dtd = None if source.lookups else source.dtd
            self._dtds.setdefault(source.tenant_id, {})[source.name] = dtd

    def warning(
        self, tenant_id: int, query: str, namespaces: Mapping[str, str], dialect: Dialect, params: Params
    ) -> str | None:
        """Returns a warning of a query that no message of the registered sources can match. Blocks.

        ``None`` if a message may match, or a source has no DTD: whatever it publishes might match.
        """
        dtds = self._dtds.get(tenant_id)
        parsed = parsed_natively(query, namespaces, dialect, params) if dtds and None not in dtds.values() else None
        if not dtds or parsed is None:
            return None
        reasons: dict[str, str] = {}
        for name, dtd in sorted(dtds.items()):
            schema = None if dtd is None else _satisfiability(dtd)
            why = None if schema is None else schema.why_never(parsed)
            if why is None:
                return None
            reasons[name] = why
        shown = [f"by the DTD of {name}, {why}" for name, why in list(reasons.items())[:_NAMED_MAX]]
        rest = len(reasons) - len(shown)
        more = f"; and so for {rest} more" if rest else ""
        return f"no message of your sources can match: {'; '.join(shown)}{more}"


@lru_cache(maxsize=64)
def _satisfiability(dtd: str) -> Satisfiability | None:
    from twigcast.schema import Satisfiability, read_dtd  # most brokers have no DTDs

    try:
        return Satisfiability(read_dtd(dtd.encode()))
    except TwigcastError as error:
        # It was checked when it was stored, unless lxml was missing.
        _log.warning("a source's DTD cannot be used to look at subscriptions: %s", error)
        return None
