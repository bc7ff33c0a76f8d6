"""``/feeds``: an Atom feed of each subscription and source, for readers that cannot send a token."""

from __future__ import annotations

import asyncio
import hashlib
import time
from email.utils import formatdate, parsedate_to_datetime
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.context import Anyone, ApiContext, PathName, Shared, Subscriber
from twigcast.broker.api.models import Model
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.api.preconditions import Preconditions
from twigcast.broker.delivery.atom import MEDIA_TYPE, AtomContent, FeedLinks, link_header, write_feed
from twigcast.broker.delivery.websub_hub import find_feed
from twigcast.broker.errors import UnknownObject
from twigcast.broker.feed_addresses import HUB_PATH, Capabilities, FeedKind, FeedName, FeedPath

ENTRIES: Final = 20
ENTRIES_MAX: Final = 100
_BYTES_MAX: Final = 8 << 20
"""Bytes of content in one page, but at least one entry."""

_SETTLED_SECONDS: Final = 2.0
"""Age from which a time in whole seconds identifies a version: before, the same second may bring more."""

Before = Annotated[int | None, Query(ge=1, le=1 << 62, description="Only entries older than this sequence number.")]
Limit = Annotated[int, Query(ge=1, le=ENTRIES_MAX, description="The largest number of entries in a page.")]

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The feed.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
    304: {"description": "It is as the client has it."},
    **problem_responses(404, 422),
}


class FeedResponse(Model):
    """The address of a feed. Who has it may read the feed: it is a secret of its owner."""

    url: str = Field(description="Address of the Atom feed, for any feed reader; also the topic for WebSub.")
    hub: str = Field(description="Address of the WebSub hub.")


def base_url(request: Request, context: ApiContext) -> str:
    """Returns the broker's address as its clients use it, without a slash at its end."""
    return (context.settings.public_url or str(request.base_url)).rstrip("/")


def feed_router(capabilities: Capabilities) -> APIRouter:
    """Returns the routes of feeds."""
    router = APIRouter(tags=["feeds"])

    @router.get("/subscriptions/{key}/feed", responses=problem_responses(401, 403, 404))
    async def get_subscription_feed(
        key: PathName, request: Request, principal: Subscriber, shared: Shared
    ) -> FeedResponse:
        """Returns the address of the Atom feed of a subscription."""
        return await _address(request, shared, capabilities, "subscriptions", principal.tenant_id, key)

    @router.get("/sources/{name}/feed", responses=problem_responses(401, 403, 404))
    async def get_source_feed(name: PathName, request: Request, principal: Anyone, shared: Shared) -> FeedResponse:
        """Returns the address of the Atom feed of a registered source."""
        return await _address(request, shared, capabilities, "sources", principal.tenant_id, name)

    async def read_feed(
        request: Request,
        shared: Shared,
        token: str,
        kind: FeedKind,
        name: PathName,
        before: Before = None,
        limit: Limit = ENTRIES,
    ) -> Response:
        """Returns a feed: the newest entries first; `next` links lead to older ones.

        Its address is all that is needed.
        """
        feed, updated = await _find(shared, capabilities, FeedPath(token, kind, name))
        items, has_more = await asyncio.to_thread(_read, shared, feed, before, limit)
        path = base_url(request, shared) + capabilities.path(feed)
        links = FeedLinks(
            _with(path, before, limit),
            base_url(request, shared) + HUB_PATH,
            _with(path, None, limit),
            _with(path, items[-1].message.seq, limit) if has_more else None,
        )
        body = await asyncio.to_thread(write_feed, feed, items, links, capabilities, updated=updated)
        modified = max((item.message.received for item in items), default=updated)
        return _response(request, body, links, modified)

    path = "/feeds/{token}/{kind}/{name}"
    router.get(path, responses=_RESPONSES, response_class=Response)(read_feed)
    router.head(path, include_in_schema=False)(read_feed)
    return router


async def _address(
    request: Request, shared: ApiContext, capabilities: Capabilities, kind: FeedKind, tenant_id: int, name: str
) -> FeedResponse:
    feed, _ = await asyncio.to_thread(find_feed, shared.broker, kind, tenant_id, name)
    if feed is None:
        raise UnknownObject(f"there is no {kind[:-1]} {name!r}")
    base = base_url(request, shared)
    return FeedResponse(url=base + capabilities.path(feed), hub=base + HUB_PATH)


async def _find(shared: ApiContext, capabilities: Capabilities, path: FeedPath) -> tuple[FeedName, float]:
    """Returns a feed that the token permits to read, and the time when its subscription or source was made."""
    tenant_id = path.tenant_id
    if tenant_id is not None:
        feed, subscription = await asyncio.to_thread(find_feed, shared.broker, path.kind, tenant_id, path.name)
        if feed is not None and capabilities.permits(path.token, feed):
            return feed, 0.0 if subscription is None else subscription.created
    raise UnknownObject("there is no such feed (any more)")


def _read(shared: ApiContext, feed: FeedName, before: int | None, limit: int) -> tuple[list[AtomContent], bool]:
    """Returns a page of a feed, the newest first, and whether there are older entries. Blocks."""
    store = shared.broker.store
    if feed.kind == "subscriptions":
        deliveries = store.recent_deliveries(feed.id, limit + 1, before_seq=before)
        items = [AtomContent.of(delivery) for delivery in deliveries]
    else:
        up_to = None if before is None else before - 1
        messages = store.messages(feed.tenant_id, up_to=up_to, limit=limit + 1, newest_first=True, source=feed.name)
        items = [AtomContent(message) for message in messages]
    shown: list[AtomContent] = []
    size = 0
    for item in items[:limit]:
        size += len(item.body)
        if shown and size > _BYTES_MAX:
            break
        shown.append(item)
    return shown, len(items) > len(shown)


def _with(path: str, before: int | None, limit: int) -> str:
    query = {"before": before} if before is not None else {}
    query |= {"limit": limit} if limit != ENTRIES else {}
    return f"{path}?{urlencode(query)}" if query else path


def _response(request: Request, body: bytes, links: FeedLinks, modified: float) -> Response:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Link": link_header(links), "Cache-Control": "private, no-cache"}
    if time.time() - modified >= _SETTLED_SECONDS:
        headers["Last-Modified"] = formatdate(modified, usegmt=True)
    if _is_unmodified(request, tag, modified):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, f"{MEDIA_TYPE}; charset=utf-8")


def _is_unmodified(request: Request, tag: str, modified: float) -> bool:
    """Returns whether the client has this version (RFC 9110, section 13.2.2)."""
    conditions = Preconditions.of(request)
    if conditions.none_match is not None:
        return conditions.is_unchanged(tag)
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return int(modified) <= parsedate_to_datetime(since).timestamp()
    except ValueError:
        return False
