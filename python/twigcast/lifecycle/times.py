"""Times and versions as messages write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

# Decimal digits of ASCII alone: int() would also take those of other scripts, and underscores.
_NUMBER = re.compile(r"[0-9]{1,1000}", re.ASCII)


def seconds_of(text: str) -> float | None:
    """Returns a time in seconds since 1970; ``None`` if the text is none.

    It may be written as in ISO 8601, with or without dashes and colons, or as in e-mail (RFC 822, which RSS has). What
    says no time zone is taken to be in UTC.
    """
    text = text.strip()
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        from email.utils import parsedate_to_datetime  # few messages need it, and it takes long to import

        try:
            time = parsedate_to_datetime(text)
        except ValueError:
            return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def is_same(version: str, other: str) -> bool:
    """Returns whether versions are the same, also if they are written otherwise: ``10:00Z`` and ``12:00+02:00``."""
    if version == other:
        return True
    first, second = _rank(version), _rank(other)
    return first is not None and first == second


def is_older(version: str, other: str) -> bool:
    """Returns whether a version is older than another one: a smaller number, or an earlier time.

    Versions that are neither both numbers nor both times have no order but that in which they come.
    """
    first, second = _rank(version), _rank(other)
    return first is not None and second is not None and first[0] == second[0] and first[1] < second[1]


@lru_cache(maxsize=1_000)
def _rank(version: str) -> tuple[str, float] | None:
    """Returns what a version is ordered by, as a number or as a time; ``None`` if it is neither."""
    if _NUMBER.fullmatch(version):
        return "number", int(version)
    time = seconds_of(version)
    return None if time is None else ("time", time)
