"""``/health``, ``/ready`` and ``/metrics``: for those who run the broker."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.context import Shared
from twigcast.broker.api.openapi import SECURITY, problem_responses
from twigcast.broker.errors import BrokerError

router = APIRouter(tags=["operation"])

_STORE_SECONDS: Final = 2.0


@router.get("/health")
async def health() -> dict[str, str]:
    """Reports a living process."""
    return {"status": "ok"}


@router.get("/ready", response_model=dict[str, str], responses={503: {"model": dict[str, str]}})
async def ready(shared: Shared) -> Response:
    """Reports whether the broker accepts work: its store answers, and not too much is waiting."""
    reason = shared.broker.readiness()
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await asyncio.to_thread(shared.broker.store.last_seq)
    except BrokerError as error:
        reason = str(error)
    except TimeoutError:
        reason = f"the store did not answer in {_STORE_SECONDS:.0f} s"
    result: dict[str, Any] = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
    return Response(orjson.dumps(result), 200 if reason is None else 503, media_type="application/json")


@router.get(
    "/metrics",
    response_class=Response,
    responses=problem_responses(401, 403) | {200: {"content": {"text/plain": {}}}},
    openapi_extra={"security": SECURITY},
)
async def metrics(request: Request, shared: Shared) -> Response:
    """Returns all metrics in the format of Prometheus, to operators."""
    if not shared.settings.metrics_public:
        principal = await shared.authenticator.admit(request.headers.get("authorization"))
        principal.require_operator()
    text = await asyncio.to_thread(generate_latest, shared.registry)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
