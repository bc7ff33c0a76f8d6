"""The parts of the OpenAPI description that the types of parameters and bodies do not give."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from twigcast.broker.api.models import ProblemOut
from twigcast.broker.api.problems import MEDIA_TYPE

DESCRIPTION: Final = """
Publish XML messages, subscribe to them with XPath or For-Where-Return queries, and get what matches.

Every request carries a token: `Authorization: Bearer tc_...`. Errors are problem documents (RFC 9457) with a stable
`code`. Keys and other names in paths are percent-encoded, slashes too.
"""

SECURITY: Final[list[dict[str, list[str]]]] = [{"HTTPBearer": []}]


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns responses that are problem documents."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
        }
        for status in statuses
    }


def problem_schema() -> dict[str, Any]:
    """Returns the schema of problem documents."""
    return ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}")


def _query(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": "string", "minLength": 1, "maxLength": 512},
    }


def publish_description() -> dict[str, Any]:
    """Returns the description of ``POST /messages``, which reads its parameters by hand."""
    return {
        "security": SECURITY,
        "parameters": [
            _query("source", "Where the message comes from; `default` where nothing is said."),
            _query("id", "The publisher's own id. A message is accepted once under an id from one source."),
            {
                "name": "Twigcast-Source-Key",
                "in": "header",
                "description": "In an overlay: the key of a source that is registered in its catalogue.",
                "schema": {"type": "string"},
            },
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/xml": {"schema": {"type": "string", "format": "binary"}},
                "application/x-ndjson": {"schema": {"type": "string", "format": "binary"}},
            },
        },
    }


def lines_description(description: str) -> dict[str, Any]:
    """Returns the description of a request whose body is JSON lines."""
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}},
        }
    }
