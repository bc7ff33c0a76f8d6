"""Batches of messages: JSON, one object a line."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import orjson
from starlette.requests import Request

from twigcast.broker.api.bodies import lines
from twigcast.broker.api.context import NAME_LENGTH_MAX, check_name
from twigcast.broker.config import Settings
from twigcast.broker.errors import Invalid, TooLarge
from twigcast.broker.model import Submission
from twigcast.errors import RejectedMessage
from twigcast.reading.text import as_bytes

_MEMBERS: Final = frozenset({"xml", "xml_base64", "id", "source"})


async def read_batch(request: Request, settings: Settings, tenant_id: int, source: str) -> list[Submission]:
    """Returns the messages of a batch.

    Raises:
        Invalid: A line is no message; the error names its number and the mistake.
        TooLarge: There are too many messages or bytes.
    """
    most = settings.batch_messages_max
    submissions: list[Submission] = []
    async for number, line in lines(request, settings.body_bytes_max, settings.body_bytes_max):
        if len(submissions) == most:
            raise TooLarge(f"the batch has more than batch_messages_max = {most:,} messages")
        try:
            submissions.append(_submission(line, tenant_id, source))
        except (ValueError, RejectedMessage) as error:
            raise Invalid(f"line {number:,}: {error}; nothing of the batch was stored") from None
    if not submissions:
        raise Invalid("there are no messages in the batch")
    return submissions


def _submission(line: bytes, tenant_id: int, source: str) -> Submission:
    try:
        results = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(results, dict):
        raise ValueError("it is no JSON object")
    if unknown := results.keys() - _MEMBERS:
        raise ValueError(f"there is no member {min(unknown)!r}; use {', '.join(sorted(_MEMBERS))}")
    name = _name(results, "source")
    return Submission(tenant_id, _body(results), source if name is None else name, _name(results, "id"))


def _body(result: dict[str, Any]) -> bytes:
    text, encoded = result.get("xml"), result.get("xml_base64")
    if isinstance(text, str) and encoded is None:
        # A JSON string has no encoding any more, whatever the document declares.
        return as_bytes(text)
    if isinstance(encoded, str) and text is None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("xml_base64 is no base64") from None
    raise ValueError("give either xml or xml_base64, as a string")


def _name(result: dict[str, Any], member: str) -> str | None:
    value = result.get(member)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_LENGTH_MAX:
        raise ValueError(f"{member} must be a string of 1 to {NAME_LENGTH_MAX} characters")
    return check_name(value)
