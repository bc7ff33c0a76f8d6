"""Forms as the browser sends them, and the values in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request

from twigcast.broker.errors import Invalid, TooLarge
from twigcast.reading.text import half_pair

FORM_BYTES_MAX: Final = 4 << 20
"""Bytes of one form: a query and a DTD, percent-encoded."""

_FIELDS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields of a form or of a query string; a missing field counts as empty."""

    fields: Mapping[str, str]

    def text(self, name: str) -> str:
        """Returns a field as it was typed, with line feeds as line ends."""
        return self.fields.get(name, "").replace("\r\n", "\n")

    def line(self, name: str) -> str:
        """Returns a field without white space around it."""
        return self.text(name).strip()

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """Returns a whole number within bounds; the default if the field is empty.

        Raises:
            Invalid: It is no number.
        """
        text = self.line(name)
        if not text:
            return default
        if not re.fullmatch(r"[0-9]{1,19}", text):
            raise Invalid(f"{name} must be a whole number, not {text[:40]!r}")
        return min(max(int(text), least), most)

    def has(self, name: str) -> bool:
        """Returns whether a field is not empty, such as a ticked box."""
        return bool(self.fields.get(name))


def query_of(request: Request) -> FormFields:
    """Returns the query string of a request."""
    return FormFields(_clean(dict(request.query_params)))


async def form_of(request: Request) -> FormFields:
    """Returns the form that a request carries.

    Raises:
        Invalid: It is no form.
        TooLarge: It is too long.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Invalid("a form was expected")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > FORM_BYTES_MAX:
            raise TooLarge(f"the form has more than {FORM_BYTES_MAX >> 20} MiB")
    try:
        fields = dict(parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        raise Invalid("the form cannot be read") from None
    return FormFields(_clean(fields))


def _clean(fields: dict[str, str]) -> dict[str, str]:
    for name, value in fields.items():
        if "\0" in value or half_pair(value) is not None:
            raise Invalid(f"{name} holds a character that cannot be kept")
    return fields


def invalid(error: ValidationError) -> Invalid:
    """Returns the first mistake in a form, for people."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return Invalid(f"{field}: {first['msg']}".lstrip(": "))


# Namespaces -----------------------------------------------------------------------------------------------------------

_DECLARATION: Final = re.compile(
    r"""\s*(?:xmlns(?::(?P<xml_prefix>[^\s=]+))?|(?P<prefix>[^\s=]*))\s*=\s*(?P<quote>["']?)(?P<uri>.*?)(?P=quote)\s*"""
)


def namespaces_of(text: str) -> dict[str, str]:
    """Returns namespaces as they are typed, one a line: ``prefix = uri``, or as in XML: ``xmlns:prefix="uri"``.

    Raises:
        Invalid: A line is no declaration.
    """
    results: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        declared = _DECLARATION.fullmatch(line)
        if declared is None:
            raise Invalid(f"line {number} of the namespaces must be: prefix = namespace")
        prefix = declared["xml_prefix"] or declared["prefix"] or ""
        if prefix in results:
            raise Invalid(f"line {number} of the namespaces declares {prefix or 'the default'!r} again")
        results[prefix] = declared["uri"]
    return results


def namespaces_as_text(namespaces: Mapping[str, str]) -> str:
    """Returns namespaces as they are typed."""
    return "\n".join(f"{prefix} = {uri}".lstrip() for prefix, uri in sorted(namespaces.items()))
