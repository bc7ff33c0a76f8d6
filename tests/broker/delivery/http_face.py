"""The broker's HTTP face over a small broker, without a socket between test and application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from twigcast.broker.api.app import create_app
from twigcast.broker.api.atom import feed_router
from twigcast.broker.api.websub import websub_router
from twigcast.broker.broker import Broker
from twigcast.broker.config import Settings
from twigcast.broker.model import Scope
from twigcast.broker.outbound import OutboundServices
from twigcast.broker.tokens import create_token

BASE = "https://news.example"


@asynccontextmanager
async def client_of(broker: Broker, outbound: OutboundServices) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the application, with a token that may do all; feeds and hub need none."""
    _, secret = create_token(broker.store, 1, "test", frozenset({Scope.ADMIN}))
    app = create_app(
        broker,
        Settings(public_url=BASE),
        outbound.settings.policy,
        [feed_router(outbound.capabilities), websub_router(outbound.websub)],
    )
    app.state.context.sources_changed = outbound.poller.sources_changed
    transport = httpx2.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
        yield client


async def feed_url(client: httpx2.AsyncClient, key: str, kind: str = "subscriptions") -> str:
    """Where the feed of a subscription (or source) is."""
    answer = await client.get(f"/{kind}/{key}/feed")
    assert answer.status_code == 200, answer.text
    url = answer.json()["url"]
    assert url.startswith(BASE)
    return str(url)
