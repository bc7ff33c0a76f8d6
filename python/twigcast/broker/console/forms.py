"""Forms as the browser sends them, and the values in them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from twigcast.broker.api.bodies import read_form
from twigcast.broker.api.context import NAME_LENGTH_MAX
from twigcast.broker.config import first_mistake
from twigcast.broker.errors import Invalid
from twigcast.errors import InvalidContext
from twigcast.reading.text import half_pair
from twigcast.registration import Params
from twigcast.subscription_items import checked_params

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

    def chosen_name(self) -> str:
        """Returns the field ``name``; raises Invalid unless a source or a table may have that name."""
        name = self.line("name")
        if not name or len(name) > NAME_LENGTH_MAX:
            raise Invalid(f"a name of up to {NAME_LENGTH_MAX} characters is needed")
        return name

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """Returns a whole number within bounds, the default if the field is empty; raises Invalid if it is none."""
        text = self.line(name)
        if not text:
            return default
        if not re.fullmatch(r"[0-9]{1,19}", text):
            raise Invalid(f"{name} must be a whole number, not {text[:40]!r}")
        return min(max(int(text), least), most)

    def has(self, name: str) -> bool:
        """Returns whether a field is not empty, such as a ticked box."""
        return bool(self.fields.get(name))


T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    items: list[T]
    is_first: bool
    has_next: bool


async def turn(
    size: int, past: P | None, back: P | None, read: Callable[[P | None, P | None, int], Awaitable[list[T]]]
) -> Page[T]:
    """Returns the page after one entry or before another; ``read`` reads after the first, or back from the second."""
    if back is not None:
        results = await read(None, back, size + 1)
        if len(results) > size:
            return Page(results[:size][::-1], is_first=False, has_next=True)
        # Less than a page is left: that is the first one.
        past = None
    results = await read(past, None, size + 1)
    return Page(results[:size], is_first=past is None, has_next=len(results) > size)


def positions(form: FormFields) -> tuple[int | None, int | None]:
    """Returns the positions in a form for a list whose newest entry comes first: before one entry, or after one."""
    return form.number("before", 0) or None, form.number("after", 0) or None


def query_of(request: Request) -> FormFields:
    """Returns the query string of a request."""
    return FormFields(_clean(dict(request.query_params)))


async def form_of(request: Request) -> FormFields:
    """Returns the form that a request carries; raises Invalid if it is none, and TooLarge if it is too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Invalid("a form was expected")
    data = await read_form(request, FORM_BYTES_MAX)
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


def validated(model: type[M], fields: Mapping[str, Any]) -> M:
    """Returns fields as the API accepts them, but as texts; raises Invalid with the first mistake, for people."""
    try:
        return model.model_validate(fields, strict=False)
    except ValidationError as error:
        raise Invalid(first_mistake(error)) from None


# Namespaces -----------------------------------------------------------------------------------------------------------

_DECLARATION: Final = re.compile(
    r"""\s*(?:xmlns(?::(?P<xml_prefix>[^\s=]+))?|(?P<prefix>[^\s=]*))\s*=\s*(?P<quote>["']?)(?P<uri>.*?)(?P=quote)\s*"""
)


def namespaces_of(text: str) -> dict[str, str]:
    """Returns namespaces as they are typed, one a line: ``prefix = uri``, or as in XML: ``xmlns:prefix="uri"``."""
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


def params_of(text: str) -> dict[str, Any]:
    """Returns the values of parameters as they are typed, one a line: ``name = value``, the value a text or JSON."""
    results: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, equals, written = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise Invalid(f"line {number} of the parameters must be: name = value")
        if name in results:
            raise Invalid(f"line {number} of the parameters gives {name!r} a value again")
        try:
            results[name] = json.loads(written)
        except (ValueError, RecursionError):
            results[name] = written
    try:
        return dict(checked_params(results))
    except TypeError as error:
        raise Invalid(str(error)) from None
    except InvalidContext as error:
        raise Invalid(error.reason) from None


def params_as_text(params: Params) -> str:
    """Returns the values of parameters as they are typed."""
    return "\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(params.items()))


def namespaces_as_text(namespaces: Mapping[str, str]) -> str:
    """Returns namespaces as they are typed."""
    return "\n".join(f"{prefix} = {uri}".lstrip() for prefix, uri in sorted(namespaces.items()))
