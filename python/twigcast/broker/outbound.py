"""Everything that the broker does over the network by itself: pushing, the WebSub hub, polling of sources."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from twigcast.broker.broker import Broker
from twigcast.broker.config import Settings
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.channels import ChannelResources, make_channels
from twigcast.broker.delivery.host_scheduler import Backoff, HostLimits
from twigcast.broker.delivery.http_client import HttpClient, Timeouts
from twigcast.broker.delivery.push import Pusher, PushSettings
from twigcast.broker.delivery.websub_hub import LeaseBounds, WebSubHub
from twigcast.broker.feed_addresses import Capabilities
from twigcast.broker.sources.poll import Poller, PollLimits, PollSettings

_SPARE_CONNECTIONS: Final = 32
"""Number of connections for polls and verifications, beside pushing."""


@dataclass(frozen=True, slots=True)
class OutboundSettings:
    """The settings of all outbound services; running attempts have the seconds of ``grace`` at a stop."""

    policy: UrlPolicy = field(default_factory=UrlPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    push: PushSettings = field(default_factory=PushSettings)
    leases: LeaseBounds = field(default_factory=LeaseBounds)
    polls: PollSettings = field(default_factory=PollSettings)
    grace: float = 5.0

    @classmethod
    def of(cls, settings: Settings) -> OutboundSettings:
        """Returns the outbound part of the broker's settings."""
        backoff = Backoff(settings.push_retry_seconds, settings.push_retry_seconds_max)
        hosts = HostLimits(
            settings.push_concurrency, settings.push_concurrency_per_host, settings.push_breaker_failures
        )
        total = settings.push_timeout_seconds
        longest_lease = settings.websub_lease_seconds_max
        return cls(
            UrlPolicy.of(allow_private=settings.allow_private_urls, permitted=settings.allowed_url_hosts),
            Timeouts(connect=min(5.0, total), read=min(15.0, total), total=total),
            PushSettings(settings.push_attempts_max, settings.push_seconds_max, backoff, hosts),
            LeaseBounds(longest=longest_lease, default=min(settings.websub_lease_seconds, longest_lease)),
            PollSettings(
                settings.poll_concurrency,
                settings.poll_interval_min,
                PollLimits(
                    2 * settings.body_bytes_max,
                    settings.body_bytes_max,
                    settings.poll_links_max,
                    settings.poll_links_seconds_max,
                ),
            ),
            min(5.0, settings.stop_seconds),
        )


class OutboundServices:
    """The outbound services of a broker, for one event loop."""

    def __init__(self, broker: Broker, settings: OutboundSettings | None = None) -> None:
        self.settings = settings or OutboundSettings()
        self._broker = broker
        hosts = self.settings.push.hosts
        self.http_client = HttpClient(
            self.settings.policy,
            timeouts=self.settings.timeouts,
            # Jobs have one each; those with several at one time share as many again.
            connections_max=2 * hosts.concurrency + _SPARE_CONNECTIONS,
        )
        self.capabilities = Capabilities(broker.store.secret())
        self.poller = Poller(broker, self.http_client, self.settings.polls)
        self.websub = WebSubHub(broker, self.http_client, self.capabilities, self.settings.leases, self._has_news)
        channels = make_channels(ChannelResources(self.http_client, self.capabilities))
        self.pusher = Pusher(broker, channels, self.settings.push)

    async def start(self) -> None:
        """Resumes pushing, leases and polling."""
        # Listening begins first: a change while the stored subscriptions are read is then seen, at worst twice.
        self._broker.add_listener(self.pusher)
        self._broker.add_listener(self.websub)
        stored = await asyncio.to_thread(lambda: list(self._broker.store.all_subscriptions(pushed_only=True)))
        await self.pusher.start(stored)
        await self.websub.start(stored)
        self.poller.start()

    async def stop(self) -> None:
        """Stops all services; undelivered deliveries stay pending."""
        await asyncio.gather(self.poller.stop(), self.websub.stop(), self.pusher.stop(self.settings.grace))
        await self.http_client.aclose()

    def _has_news(self, url: str) -> None:
        self.poller.poll_now(url=url)
