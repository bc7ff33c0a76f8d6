"""The parts of the OpenAPI description that the types of parameters and bodies do not give."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from fastapi.routing import APIRoute

from twigcast.broker.api.models import ProblemOut
from twigcast.broker.api.problems import MEDIA_TYPE

DESCRIPTION: Final = """
Publish XML messages, subscribe to them with XPath or For-Where-Return queries, and get what matches.

Every request carries a token: `Authorization: Bearer tc_...`. Errors are problem documents (RFC 9457) with a stable
`code`. Keys and other names in paths are percent-encoded, slashes too. Each path can be written with the version of the
interface before it, as in `/v1/messages`.
"""

_OPERATIONS: Final = {
    "acknowledge": "acknowledge_deliveries",
    "ask_hub": "ask_websub_hub",
    "check": "check_query",
    "choose": "choose_broker",
    "clock": "get_clock",
    "delete": "delete_dead_letters",
    "explain": "explain_message",
    "extend": "extend_leases",
    "give_back": "release_deliveries",
    "health": "get_health",
    "make_ticket": "create_ticket",
    "metrics": "get_metrics",
    "overlay": "get_overlay",
    "publish": "publish_messages",
    "pull": "pull_deliveries",
    "ready": "get_readiness",
    "retry": "redrive_dead_letters",
    "route": "get_overlay_message",
    "seek": "seek_subscription",
    "set_limits": "set_tenant_limits",
    "source": "get_overlay_source",
    "sources": "list_overlay_sources",
    "statistics": "get_statistics",
    "stream": "stream_deliveries",
    "subscribe": "create_subscription",
    "who": "get_identity",
}
"""Ids of operations whose functions have names that say enough only in their module."""


def operation_id(route: APIRoute) -> str:
    """Returns the id of an operation, after which generators of clients name their methods: a verb and an object."""
    return _OPERATIONS.get(route.name, route.name)


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


NOT_MODIFIED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "The sender has it: see If-None-Match."}}


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


PUBLISH_PARAMETERS: Final = {
    "source": "Where the message comes from; `default` where nothing is said.",
    "id": "The publisher's own id. A message is accepted once under an id from one source.",
    "priority": "From 0 to 9, 4 where nothing is said: with a higher one it is evaluated, stored and forwarded before "
    "those that wait, and is next where deliveries go by urgency. Of a batch, for messages that have none.",
    "deadline": "When it is of no use any more: a time, or a period from now on such as `5 min`. A later delivery says "
    "that it is late, or is dropped, as its subscription wishes. Of a batch, for messages that have none.",
    "items": "`true`: publish a document item by item, as the profile of its source says.",
}
"""What the parameters of ``POST /messages`` mean, by name."""


def publish_description() -> dict[str, Any]:
    """Returns the description of ``POST /messages``, which reads its parameters by hand."""
    return {
        "security": SECURITY,
        "parameters": [
            *(_query(name, description) for name, description in PUBLISH_PARAMETERS.items()),
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
