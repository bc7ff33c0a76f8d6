"""``/websub``: the hub. Anyone may send it requests; topics are addresses that nobody can guess."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from twigcast.broker.api.atom import base_url
from twigcast.broker.api.bodies import read_form
from twigcast.broker.api.context import Shared
from twigcast.broker.delivery.websub_hub import WebSubHub
from twigcast.broker.errors import Invalid, TooLarge, TooMany, UnknownObject, UrlRefused
from twigcast.broker.feed_addresses import HUB_PATH

FORM: Final = "application/x-www-form-urlencoded"
_BODY_BYTES_MAX: Final = 64 << 10
_FIELDS_MAX: Final = 100

_TEXT: Final = {"content": {"text/plain": {"schema": {"type": "string"}}}}

_PARAMETERS: Final = {
    "hub.mode": "`subscribe`, `unsubscribe` or `publish`.",
    "hub.topic": "The `self` link of a feed of this broker.",
    "hub.callback": "Where the subscriber is asked and receives.",
    "hub.lease_seconds": "How long the subscription is to last.",
    "hub.secret": "For signatures; less than 200 bytes.",
    "hub.filter": "Extension: an XPath expression; only messages that it matches are distributed.",
    "hub.filter_namespace": "Extension: `prefix=uri` for the filter; may be repeated.",
    "hub.url": "With `publish`: the address of a polled source that has news.",
}

_DESCRIPTION: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["hub.mode"],
                    "properties": {name: {"type": "string", "description": text} for name, text in _PARAMETERS.items()},
                }
            }
        },
    }
}

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    202: {"description": "Taken; the callback is asked next.", **_TEXT},
    400: {"description": "A parameter is missing or wrong.", **_TEXT},
    404: {"description": "There is no such topic.", **_TEXT},
    413: {"description": "The form is too long.", **_TEXT},
    415: {"description": "It is no form.", **_TEXT},
    429: {"description": "Too many requests wait for verification.", **_TEXT},
}


def websub_router(hub: WebSubHub) -> APIRouter:
    """Returns the route of the hub."""
    router = APIRouter(tags=["feeds"])

    @router.post(
        HUB_PATH, status_code=202, responses=_RESPONSES, response_class=PlainTextResponse, openapi_extra=_DESCRIPTION
    )
    async def ask_hub(request: Request, shared: Shared) -> Response:
        """Subscribes to a feed, ends a subscription, or announces news of a polled source (W3C WebSub)."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            return PlainTextResponse(f"the request must have the type {FORM}", 415)
        try:
            form = parse_qs(
                (await read_form(request, _BODY_BYTES_MAX)).decode("utf-8"),
                keep_blank_values=True,
                max_num_fields=_FIELDS_MAX,
                errors="strict",
            )
            await hub.handle(form, base_url(request, shared))
        except TooLarge as error:
            return PlainTextResponse(error.reason, 413)
        except (UnicodeDecodeError, ValueError):
            return PlainTextResponse("the form cannot be read; it must be in UTF-8", 400)
        except (Invalid, UrlRefused) as error:
            return PlainTextResponse(error.reason, 400)
        except UnknownObject as error:
            return PlainTextResponse(error.reason, 404)
        except TooMany as error:
            return PlainTextResponse(error.reason, 429, {"Retry-After": str(round(error.retry_after or 1))})
        return PlainTextResponse("accepted\n", 202)

    return router
