"""A server of a feed, and what tests ask of the source that polls it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.broker.delivery.pushing import TENANT, until
from tests.broker.delivery.receiver import Got, Receiver, Reply
from twigcast.broker.broker import Broker
from twigcast.broker.model import RejectedRecord, Source, SourceKind, StoredMessage


def rss(*names: str) -> bytes:
    items = "".join(f"<item><guid>{name}</guid><title>{name}</title></item>" for name in names)
    return f"<rss version='2.0'><channel>{items}</channel></rss>".encode()


@dataclass
class Site:
    """A server of one feed, that knows what a validator is."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    validates: bool = True
    server: Receiver = field(init=False)

    def __post_init__(self) -> None:
        self.server = Receiver(self.reply)

    def reply(self, got: Got) -> Reply:
        tag = f'"{hash(self.body)}"'
        if self.status != 200:
            return Reply(self.status, self.headers)
        if self.validates and got.headers.get("if-none-match") == tag:
            return Reply(304)
        return Reply(200, {"ETag": tag, **self.headers} if self.validates else self.headers, self.body)

    @property
    def statuses(self) -> int:
        return len(self.server.got)


async def register(
    broker: Broker, url: str, kind: SourceKind = "rss", *, interval: float = 0.05, name: str = "feed", **more: Any
) -> Source:
    return await broker.change(lambda t: t.put_source(Source(0, TENANT, name, kind, url, interval, **more)))


def source(broker: Broker, name: str = "feed") -> Source:
    result = broker.store.source(TENANT, name)
    assert result is not None
    return result


def state(broker: Broker) -> dict[str, Any]:
    return dict(source(broker).state)


def stored(broker: Broker) -> list[StoredMessage]:
    return broker.store.messages(TENANT, limit=1_000)


def ids(broker: Broker) -> list[str]:
    return [message.message_id for message in stored(broker)]


async def rounds(site: Site, number: int = 2) -> None:
    """Let some more polls come to their end."""
    await site.server.count(len(site.server.got) + number)


def rejected(broker: Broker) -> list[RejectedRecord]:
    return broker.store.rejected(TENANT, limit=100)


def reports(broker: Broker) -> list[dict[str, Any]]:
    """The reports of the last polls, newest first."""
    return list(state(broker).get("reports") or [])


async def polled(broker: Broker) -> dict[str, Any]:
    """The state of the source after a poll that began later than this; the one before may have begun earlier."""
    for _ in range(2):
        before = state(broker).get("last_poll")

        def is_over(before: Any = before) -> bool:
            return bool(state(broker).get("last_poll") != before)

        await until(is_over)
    return state(broker)
