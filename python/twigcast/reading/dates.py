"""Dates in messages, in the forms in which feeds write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import Final

_MILLISECONDS: Final = 100_000_000_000
"""A number of seconds is smaller: until the year 5138."""

_COLONLESS: Final = re.compile(r"([+-]\d\d)(\d\d)$")
_SPACED_OFFSET: Final = re.compile(r"\s+(?=[+-]\d\d:?\d\d$|[Zz]$)")


def parse_date(text: str) -> float | None:
    """Returns a date in seconds since the epoch; ``None`` if it is in no form that is known.

    These are RFC 3339 and other forms of ISO 8601, RFC 822 with its successors, also without a weekday or seconds, and
    seconds or milliseconds since the epoch. Without an offset, it is UTC.
    """
    text = " ".join(text.split())
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) in (10, 13):
        number = float(text)
        return number / 1000.0 if number >= _MILLISECONDS else number
    try:
        moment = datetime.fromisoformat(_COLONLESS.sub(r"\1:\2", _SPACED_OFFSET.sub("", text)))
    except ValueError:
        return _in_mail_form(text)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return None


def _in_mail_form(text: str) -> float | None:
    try:
        parts = parsedate_tz(text)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def is_newer(date: str, before: str) -> bool:
    """Returns whether a date is later than another; where one of them cannot be read, whether it is another text."""
    one, other = parse_date(date), parse_date(before)
    return date.strip() != before.strip() if one is None or other is None else one > other
