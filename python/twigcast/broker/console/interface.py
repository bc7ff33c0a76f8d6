"""The page ``/docs``: the description of the interface for people, made from the same OpenAPI document as for programs.

It loads nothing from elsewhere, and needs no token, as ``/openapi.json`` needs none.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages

PATH: Final = "/docs"


@dataclass(frozen=True, slots=True)
class DescribedField:
    """A parameter of an operation, or a member of a body."""

    name: str
    where: str
    """``path``, ``query``, ``header`` or ``body``."""
    kind: str
    is_required: bool
    description: str


@dataclass(frozen=True, slots=True)
class DescribedOperation:
    """An operation of the interface."""

    id: str
    method: str
    path: str
    paragraphs: tuple[str, ...]
    fields: tuple[DescribedField, ...]
    responses: tuple[tuple[str, str], ...]
    """Statuses with what they mean."""


def routes() -> list[Route]:
    """Returns the route of the page."""
    return [Route(PATH, _page, methods=["GET"], include_in_schema=False)]


async def _page(request: Request) -> Response:
    description = await asyncio.to_thread(request.app.openapi)
    return pages.html(await asyncio.to_thread(_rendered, description))


def _rendered(description: Mapping[str, Any]) -> str:
    info = description["info"]
    values = {
        "groups": operations(description),
        "version": info["version"],
        "paragraphs": _paragraphs(info.get("description", "")),
    }
    return pages.render("interface.html", values)


def operations(description: Mapping[str, Any]) -> dict[str, list[DescribedOperation]]:
    """Returns all operations by the subject that they are about."""
    results: dict[str, list[DescribedOperation]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            subject = (operation.get("tags") or ["other"])[0]
            results.setdefault(subject, []).append(_operation(description, path, method, operation))
    return dict(sorted(results.items()))


def _operation(
    description: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> DescribedOperation:
    parameters = [
        DescribedField(p["name"], p["in"], _kind(p["schema"]), p.get("required", False), p.get("description", ""))
        for p in operation.get("parameters", ())
    ]
    return DescribedOperation(
        operation["operationId"],
        method.upper(),
        path,
        _paragraphs(operation.get("description") or operation.get("summary", "")),
        (*parameters, *_members(description, operation.get("requestBody", {}))),
        tuple((status, answer["description"]) for status, answer in sorted(operation["responses"].items())),
    )


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n") if part.strip())


def _members(description: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[DescribedField]:
    """Yields the members of a body; what is no JSON object is one field, named by its type."""
    for media, content in body.get("content", {}).items():
        schema = content.get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        members = description["components"]["schemas"].get(name, schema).get("properties")
        if members is None:
            yield DescribedField(media, "body", _kind(schema), True, body.get("description", ""))
            continue
        required = description["components"]["schemas"].get(name, schema).get("required", ())
        for member, inner in members.items():
            yield DescribedField(member, "body", _kind(inner), member in required, inner.get("description", ""))


def _kind(schema: Mapping[str, Any]) -> str:
    """Returns the type of a value in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " | ".join(dict.fromkeys(map(_kind, schema[choice])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type", "any"))
