"""Errors as problem documents (RFC 9457): every error response has the same form."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from twigcast.broker.errors import (
    BrokerError,
    IdReused,
    LimitReached,
    PreconditionFailed,
    Standby,
    TooMany,
    UnknownDelivery,
    UrlRefused,
)
from twigcast.broker.logs import request_id
from twigcast.errors import (
    DuplicateKey,
    InternalError,
    LimitExceeded,
    QueryError,
    RejectedMessage,
    SubscriptionError,
    TwigcastError,
    UnknownKey,
    WindowError,
    caret,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:twigcast:problem:"
"""Prefix of the ``type`` of a problem, before its ``code``."""

_log = logging.getLogger("twigcast.api")

_CODES: Final = {404: "not-found", 405: "method-not-allowed", 401: "unauthorized", 403: "forbidden", 413: "too-large"}
WITH_EFFECT: Final = frozenset({"/deliveries", "/deliveries/stream"})
"""Paths that GET takes something from: a pull leases deliveries, a stream does not end."""

_INVALID: Final = 422
_PATH_SHOWN_MAX: Final = 200
_MISTAKES_SHOWN: Final = 100
_PARAMETER: Final = re.compile(r"\{[^}]*\}")


class Problem(Exception):
    """A problem that has no error class of its own."""

    def __init__(self, status: int, code: str, detail: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.more = dict(more or {})


def document(status: int, code: str, detail: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a problem document as plain values."""
    return {
        "type": TYPE_PREFIX + code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **(more or {}),
    }


def response(
    status: int, code: str, detail: str, more: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns a problem document as a response. It names the request if that has an id."""
    result = document(status, code, detail, more)
    if existing := request_id():
        result["request_id"] = existing
    return Response(orjson.dumps(result), status, dict(headers or {}), MEDIA_TYPE)


def of_error(error: Exception) -> dict[str, Any]:
    """Returns the problem document of an error that users can see."""
    status, code, detail, more, _ = _described(error)
    return document(status, code, detail, more)


def response_to(error: Exception) -> Response:
    """Returns the response to an error that users can see."""
    return response(*_described(error))


def _described(error: Exception) -> tuple[int, str, str, dict[str, Any], dict[str, str]]:
    """Returns status, code, detail, further members and headers."""
    if isinstance(error, Problem):
        return error.status, error.code, error.detail, error.more, {}
    if isinstance(error, BrokerError):
        return error.status, error.code, error.reason, _details(error), _headers(error)
    if isinstance(error, QueryError):
        more: dict[str, Any] = {"column": error.column, "caret": caret(error.text, error.column)}
        if error.expected:
            more["expected"] = list(error.expected)
        return _INVALID, error.code, error.reason, more | _limit(error), {}
    if isinstance(error, RejectedMessage):
        return _INVALID, error.code, error.reason, {"line": error.line, "column": error.column} | _limit(error), {}
    if isinstance(error, ClientDisconnect):
        # The client is gone and reads no response.
        return 400, "disconnected", "the connection ended before the request did", {}, {}
    if isinstance(error, TwigcastError) and not isinstance(error, InternalError):
        return _status(error), error.code, str(getattr(error, "reason", error)), {}, {}
    return 500, "internal", "the broker failed to answer; its log says why", {}, {}


def _status(error: TwigcastError) -> int:
    if isinstance(error, UnknownKey):
        return 404
    if isinstance(error, DuplicateKey):
        return 409
    return _INVALID if isinstance(error, SubscriptionError | WindowError) else 500


def _details(error: BrokerError) -> dict[str, Any]:
    if isinstance(error, UnknownDelivery):
        return {"newest": error.newest}
    if isinstance(error, IdReused):
        return {"seq": error.seq, "id": error.message_id}
    if isinstance(error, Standby):
        return {"active": error.active}
    if isinstance(error, PreconditionFailed):
        return {} if error.etag is None else {"etag": error.etag}
    return _limit(error)


def _limit(error: Exception) -> dict[str, Any]:
    if isinstance(error, LimitExceeded | LimitReached):
        return {"limit": error.limit, "value": error.value}
    return {}


def _headers(error: BrokerError) -> dict[str, str]:
    if isinstance(error, TooMany) and error.retry_after is not None:
        return {"Retry-After": str(max(1, round(error.retry_after)))}
    if error.status == 401:
        return {"WWW-Authenticate": 'Bearer realm="twigcast"'}
    if error.status in (503, 507):
        return {"Retry-After": "1"}
    return {}


async def _on_expected_error(request: Request, error: Exception) -> Response:
    if isinstance(error, UrlRefused) and error.address and getattr(request.state, "is_operator", False):
        status, code, detail, more, headers = _described(error)
        return response(status, code, detail, more | {"address": error.address}, headers)
    return answer_to_error(error)


def answer_to_error(error: Exception) -> Response:
    """Returns the response to an error that users can see, and logs it if it is a failure of the broker."""
    answer = response_to(error)
    if answer.status_code >= 500:
        _log.error("a request failed: %s", error)
    return answer


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == 405:
        headers = {"Allow": ", ".join(_allowed(request)) or (headers or {}).get("Allow", "")}
    if error.status_code == 400:
        # A body that is not UTF-8, let alone JSON.
        return response(_INVALID, "invalid", str(error.detail))
    if error.status_code == 404:
        return response(404, "not-found", _nothing_at(request.scope["path"]), headers=headers)
    code = _CODES.get(error.status_code, HTTPStatus(error.status_code).phrase.lower().replace(" ", "-"))
    return response(error.status_code, code, str(error.detail), headers=headers)


def _nothing_at(path: str) -> str:
    shown = path if len(path) <= _PATH_SHOWN_MAX else path[:_PATH_SHOWN_MAX] + "..."
    reason = ": the name after the last slash is empty" if len(path) > 1 and path.endswith("/") else ""
    return f"there is nothing at {shown!r}{reason}"


def _allowed(request: Request) -> list[str]:
    """Returns the methods of a path, of all its routes: the error names those of one route only."""
    results: set[str] = set()
    for template, methods in request.app.openapi()["paths"].items():
        pattern = "[^/]+".join(map(re.escape, _PARAMETER.split(template)))
        if re.fullmatch(pattern, request.scope["path"]):
            results.update(method.upper() for method in methods)
            if "get" in methods and request.scope["path"] not in WITH_EFFECT:
                results.add("HEAD")
    return sorted(results)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    members = _members(request)
    results = [
        {
            "in": str(item["loc"][0]),
            "field": ".".join(str(part) for part in item["loc"][1:]),
            "reason": _reason(item, members),
        }
        for item in error.errors()[:_MISTAKES_SHOWN]
    ]
    first = results[0]
    detail = f"{first['field'] or first['in']}: {first['reason']}"
    return response(_INVALID, "invalid", detail, {"errors": results})


def _members(request: Request) -> list[str]:
    """Returns the members that the body of a request may have."""
    field = getattr(request.scope.get("route"), "body_field", None)
    fields = getattr(field and field.field_info.annotation, "model_fields", {})
    return sorted(member.alias or name for name, member in fields.items())


def _reason(item: Mapping[str, Any], members: Sequence[str]) -> str:
    """Returns what is wrong with a field, without pydantic's prefix before the words of our own checks."""
    own = item.get("ctx", {}).get("error")
    if item["type"] == "extra_forbidden":
        known = f"; there are {', '.join(members)}" if members and len(item["loc"]) == len(("body", "member")) else ""
        return f"there is no such member{known}"
    if item["type"] == "json_invalid":
        return f"this is no JSON: {own}"
    if item["type"] in ("model_attributes_type", "model_type", "dict_type"):
        return "a JSON object is due here"
    return str(own) if isinstance(own, ValueError) else str(item["msg"])


async def on_unexpected(_: Request, error: Exception) -> Response:
    """Returns the response to a fault of the broker itself; the server logs the error."""
    return response_to(error)


def install(app: FastAPI) -> None:
    """Makes an application answer all errors with problem documents."""
    app.add_exception_handler(TwigcastError, _on_expected_error)
    app.add_exception_handler(Problem, _on_expected_error)
    app.add_exception_handler(ClientDisconnect, _on_expected_error)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, on_unexpected)
