"""``/subscriptions/import`` and ``/subscriptions/export``: many subscriptions at a time, as JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from twigcast.broker.api import problems
from twigcast.broker.api.access import Principal
from twigcast.broker.api.bodies import ContentType, LoopBreaks, lines, unsupported
from twigcast.broker.api.context import ApiContext, Shared, Subscriber
from twigcast.broker.api.guard import check_members
from twigcast.broker.api.models import SubscriptionIn
from twigcast.broker.api.openapi import lines_description, problem_responses
from twigcast.broker.api.subscriptions import new_subscription, urgency_of, window_of
from twigcast.broker.api.subscriptions import replace as replace_one
from twigcast.broker.config import first_mistake
from twigcast.broker.delivery.channel import shown_settings
from twigcast.broker.delivery.channels import SETTINGS
from twigcast.broker.errors import Conflict, Invalid, StoreUnavailable
from twigcast.broker.model import PULL, SHARED, NewQuery, NewSubscription, OverflowPolicy, StoredSubscription
from twigcast.errors import TwigcastError

router = APIRouter(prefix="/subscriptions", tags=["subscriptions"], responses=problem_responses(401, 403))

LINES: Final = "application/x-ndjson"
_GROUP: Final = 5_000
"""Number of subscriptions stored by one commit."""
_REPLACED_AT_ONCE: Final = 200
_PAGE: Final = 1_000
_SHOWN_MAX: Final = 10_000
"""Number of refused lines that the response describes."""
_LINE_SLACK: Final = 64 << 10
"""Bytes of a line beyond those of its query."""
_BODY_MAX: Final = 1 << 40
"""Lines are processed as they come, so only the number of subscriptions bounds the body."""

Line = tuple[int, SubscriptionIn]
"""A line with its number."""


@router.post(
    "/import",
    response_class=Response,
    responses=problem_responses(413, 415, 422, 429, 503, 507) | {200: {"content": {LINES: {}}}},
    openapi_extra=lines_description("Subscriptions, as `POST /subscriptions` takes them, one a line."),
)
async def import_subscriptions(
    request: Request,
    principal: Subscriber,
    shared: Shared,
    replace: Annotated[bool, Query(description="Whether an existing subscription is replaced.")] = False,
) -> Response:
    """Adds many subscriptions. Lines that are refused do not keep the others from being stored.

    The response is JSON lines: for each refused line `line`, `key` and `error` (a problem document), and at last
    `{"lines": ..., "added": ..., "replaced": ..., "refused": ...}`. An import that ended early may be sent again with
    `replace=true`.
    """
    kind = ContentType.of(request)
    if not kind.is_lines and kind.media not in {"", "application/json", "application/x-www-form-urlencoded"}:
        raise unsupported(kind.media, LINES)
    work = _Import(shared, principal, replace=replace)
    async for number, line in lines(request, _BODY_MAX, shared.settings.query_bytes_max + _LINE_SLACK):
        await work.take(number, line)
    await work.flush()
    return Response(work.report(), media_type=LINES)


class _Import:
    """A running import: lines gather in groups, in which no key is twice."""

    def __init__(self, shared: ApiContext, principal: Principal, *, replace: bool) -> None:
        self._shared = shared
        self._principal = principal
        self._replace = replace
        self._group: dict[str, Line] = {}
        self._refused: list[bytes] = []
        self._counts = {"lines": 0, "added": 0, "replaced": 0, "refused": 0}

    async def take(self, number: int, line: bytes) -> None:
        """Adds a line."""
        self._counts["lines"] += 1
        try:
            check_members(line)
            asked = SubscriptionIn.model_validate_json(line)
        except (ValidationError, Invalid) as error:
            reason = error if isinstance(error, Invalid) else Invalid(first_mistake(error))
            self._refuse(number, _key_in(line), reason)
            return
        if asked.from_ is not None:
            self._refuse(number, asked.key, Invalid("from: an import has no past; use POST /subscriptions"))
            return
        if asked.key in self._group:
            await self.flush()
        self._group[asked.key] = (number, asked)
        if len(self._group) >= _GROUP:
            await self.flush()

    async def flush(self) -> None:
        """Stores the gathered lines."""
        group, self._group = self._group, {}
        existing: dict[str, StoredSubscription] = {}
        if self._replace:
            store, tenant_id = self._shared.broker.store, self._principal.tenant_id
            existing = await asyncio.to_thread(store.subscriptions_by_key, tenant_id, list(group))
        await self._add([line for key, line in group.items() if key not in existing])
        await self._put([(*group[key], there) for key, there in existing.items()])

    async def _add(self, asked: Sequence[Line]) -> None:
        new: list[tuple[Line, NewSubscription]] = []
        breaks = LoopBreaks()
        for line in asked:
            await breaks.if_due()
            try:
                new.append((line, await new_subscription(self._shared, self._principal, line[1].key, line[1])))
            except TwigcastError as error:
                self._refuse(line[0], line[1].key, error)
        if not new:
            return
        outcomes = await self._shared.broker.subscribe([item for _, item in new])
        for ((number, subscription), _), outcome in zip(new, outcomes, strict=True):
            if isinstance(outcome, StoredSubscription):
                self._counts["added"] += 1
            else:
                self._refuse(number, subscription.key, outcome)

    async def _put(self, asked: Sequence[tuple[int, SubscriptionIn, StoredSubscription]]) -> None:
        """Replaces subscriptions: in bulk if only queries differ, as when a population is loaded again."""
        singly: list[tuple[int, SubscriptionIn, StoredSubscription]] = []
        queries: list[tuple[int, NewQuery]] = []
        breaks = LoopBreaks()
        for number, body, existing in asked:
            await breaks.if_due()
            if body.subscriber not in (None, existing.subscriber):
                detail = f"the subscription {body.key!r} is there already, of the subscriber {existing.subscriber!r}"
                self._refuse(number, body.key, Conflict(detail))
            elif (
                body.delivery.kind != PULL
                or existing.delivery.is_pushed
                or existing.delivery.sharing is not None
                or getattr(body.delivery, "queue", None) == SHARED
                or "xquery" in (body.dialect, existing.dialect)
                or body.overflow is not existing.overflow
                or body.follow is not existing.follow
                or window_of(body.when) != existing.window
                or urgency_of(body.urgency) != existing.urgency
            ):
                singly.append((number, body, existing))
            elif (body.query, body.namespaces, body.dialect, body.params) == (
                existing.query,
                existing.namespaces,
                existing.dialect,
                existing.params,
            ):
                self._counts["replaced"] += 1
            else:
                queries.append((number, NewQuery(existing, body.query, body.namespaces, body.dialect, body.params)))
        outcomes = await self._shared.broker.replace_queries([new for _, new in queries])
        for (number, new), error in zip(queries, outcomes, strict=True):
            self._count_replaced(number, new.subscription.key, error)
        # Many at a time, which share commits.
        for start in range(0, len(singly), _REPLACED_AT_ONCE):
            await asyncio.gather(*(self._put_one(*item) for item in singly[start : start + _REPLACED_AT_ONCE]))

    async def _put_one(self, number: int, body: SubscriptionIn, existing: StoredSubscription) -> None:
        refusal = None
        if getattr(body.delivery, "secret_left_out", False) and body.delivery.kind == existing.delivery.kind:
            secrets = {"secret": existing.delivery.secret, "previous_secret": existing.delivery.previous_secret}
            body.delivery = body.delivery.model_copy(update=secrets)
        try:
            await replace_one(self._shared, existing, body)
        except TwigcastError as error:
            refusal = error
        self._count_replaced(number, body.key, refusal)

    def _count_replaced(self, number: int, key: str, error: Exception | None) -> None:
        if error is None:
            self._counts["replaced"] += 1
        else:
            self._refuse(number, key, error)

    def _refuse(self, number: int, key: str | None, error: Exception) -> None:
        if isinstance(error, StoreUnavailable) or not isinstance(error, TwigcastError):
            raise error
        self._counts["refused"] += 1
        if len(self._refused) < _SHOWN_MAX:
            self._refused.append(orjson.dumps({"line": number, "key": key, "error": problems.of_error(error)}))

    def report(self) -> bytes:
        """Returns the body of the response."""
        self._refused.append(orjson.dumps(self._counts))
        return b"\n".join([*self._refused, b""])


def _key_in(line: bytes) -> str | None:
    """Returns the key in a line that is no subscription, if it has one."""
    try:
        result = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    key = result.get("key") if isinstance(result, dict) else None
    return key if isinstance(key, str) else None


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES: {}}, "description": "All of them."}},
)
async def export_subscriptions(principal: Subscriber, shared: Shared) -> StreamingResponse:
    """Returns all subscriptions in the lines of an import, without secrets of webhooks and without WebSub leases.

    A webhook whose secret is left out says so with `secret_left_out`: an import refuses it until the secret is added,
    or keeps the secret if it replaces the webhook.
    """
    store = shared.broker.store

    def read(after: str | None) -> tuple[bytes, str | None]:
        """Returns some lines, and the key after which there are more."""
        page = store.subscriptions(principal.tenant_id, after_key=after, limit=_PAGE)
        requested = [orjson.dumps(_exported(item)) for item in page if item.delivery.kind in SETTINGS]
        return b"\n".join([*requested, b""]) if requested else b"", page[-1].key if len(page) == _PAGE else None

    async def all_lines() -> AsyncIterator[bytes]:
        after: str | None = None
        while True:
            written, last = await asyncio.to_thread(read, after)
            if written:
                yield written
            if last is None:
                return
            after = last

    return StreamingResponse(all_lines(), media_type=LINES)


def _exported(subscription: StoredSubscription) -> dict[str, Any]:
    """Returns the fields of an import; those with the default value are left out."""
    results: dict[str, Any] = {"key": subscription.key, "query": subscription.query}
    if subscription.namespaces:
        results["namespaces"] = dict(subscription.namespaces)
    if subscription.dialect != "xpath":
        results["dialect"] = subscription.dialect
    if subscription.params:
        results["params"] = dict(subscription.params)
    if subscription.subscriber != subscription.key:
        results["subscriber"] = subscription.subscriber
    if subscription.delivery.is_pushed or subscription.delivery.sharing is not None:
        left_out = {"secret_left_out": True} if subscription.delivery.secret is not None else {}
        results["delivery"] = shown_settings(subscription.delivery) | left_out
    if subscription.overflow is not OverflowPolicy.SUSPEND:
        results["overflow"] = subscription.overflow
    if subscription.follow is not None:
        results["follow"] = subscription.follow
    if subscription.window is not None:
        results["when"] = subscription.window.as_mapping()
    if subscription.urgency is not None:
        results["urgency"] = subscription.urgency.as_mapping()
    return results
