"""Dialing a broker, and again whenever its link has ended."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from typing import Final

import grpc
import grpc.aio

from twigcast.overlay.errors import CertificateError, NetworkError, PeerRefused
from twigcast.overlay.onyx.network.frames import frame, packet
from twigcast.overlay.onyx.network.greeting import CERTIFICATE, DUPLICATE, FRAME, STOPPING, GoAway, Greeting, Ready
from twigcast.overlay.onyx.network.links import Links
from twigcast.overlay.onyx.network.reports import DialReport
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.network.streams import DialedStream, options, path_of, same
from twigcast.overlay.onyx.network.tls import Certificates, Target

logger = logging.getLogger(__name__)

#: Words in errors of gRPC that point to the certificates.
_HANDSHAKE: Final = ("handshake", "certificate", "ssl_error", "verification check")


class Dialer:
    """A task that keeps a link to one broker.

    Args:
        target: Its address.
        links: Takes the link.
        certificates: Those of this broker; ``None``: it has none.
    """

    def __init__(self, target: Target, links: Links, certificates: Certificates | None) -> None:
        self.target = target
        self._links = links
        self._certificates = certificates
        self._identity: int | None = None  #: Number of the broker that answered last.
        self._named = target.host  #: The name that its certificate must have.
        self._attempts = 0
        self._reason: str | None = None
        self._at: float | None = None

    def report(self) -> DialReport | None:
        """Returns why there is no link, or ``None`` if there is one."""
        if self._identity is not None and self._links.of(self._identity) is not None:
            return None
        return DialReport(str(self.target), self._attempts, self._reason, self._at)

    async def run(self) -> None:
        """Dials until cancelled."""
        while True:
            if self._identity is not None:
                await self._links.gone(self._identity)
            try:
                linked = await self.attempt()
            except PeerRefused as refusal:
                pause = self._failed(refusal)
            except NetworkError as error:
                pause = self._failed(error)
            except (ConnectionError, TimeoutError) as error:
                pause = self._unreachable(str(error) or "it does not answer")
            else:
                pause = self._pause() if linked else 0.0
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311

    @property
    def _settings(self) -> NetworkSettings:
        return self._links.settings

    def _failed(self, error: NetworkError) -> float:
        """Records a failure that is likely to remain. Returns the pause."""
        if isinstance(error, PeerRefused) and error.kind == DUPLICATE:
            self._attempts, self._reason = 0, None
            return self._settings.pause_seconds_min
        if self._note_failure(str(error)) and isinstance(error, CertificateError):
            self._links.refused(str(self.target), PeerRefused(CERTIFICATE, error.reason))
        if isinstance(error, PeerRefused) and error.kind == STOPPING:
            return self._settings.pause_seconds_min
        return self._settings.refused_seconds

    def _unreachable(self, reason: str) -> float:
        if any(word in reason.lower() for word in _HANDSHAKE):
            called = "" if self._named == self.target.host else f"; it calls itself {self._named}"
            # Another broker may be at this address by now.
            self._named = self.target.host
            return self._failed(CertificateError(f"the certificates do not fit{called}: {reason[:300]}"))
        if self._note_failure(reason):
            logger.info("%s is not reached: %s", self.target, reason, extra={"where": str(self.target)})
        return self._pause()

    def _pause(self) -> float:
        settings = self._settings
        doublings = min(max(self._attempts - 1, 0), 20)
        return min(settings.pause_seconds_min * (1 << doublings), settings.pause_seconds_max)

    def _note_failure(self, reason: str) -> bool:
        """Records why an attempt failed. Returns whether the reason is new."""
        is_new = reason != self._reason
        self._attempts += 1
        self._reason, self._at = reason, time.time()
        return is_new

    # One attempt.

    async def attempt(self) -> bool:
        """Begins a link and waits for its end. Returns whether there was one.

        ``False`` means that the name of the broker differs from its address. It has to be dialed again under that name,
        so that its certificate proves it.
        """
        channel = self._channel()
        async with channel:
            path = path_of(self._links.protocol)
            call = channel.stream_stream(path, request_serializer=same, response_deserializer=same)()
            stream = DialedStream(call)
            try:
                async with asyncio.timeout(self._settings.greeting_seconds):
                    peer = await self._greet(stream)
                    if self.target.secure and peer.name != self._named:
                        self._named = peer.name
                        return False
                    proven = frozenset({self._named}) if self.target.secure else None
                    await self._accept(stream, peer, proven)
                await self._keep(stream, peer, proven)
            finally:
                call.cancel()
        return True

    def _channel(self) -> grpc.aio.Channel:
        target, chosen = self.target, options(self._settings)
        if not target.secure:
            return grpc.aio.insecure_channel(target.address, options=chosen)
        if self._certificates is None:
            raise CertificateError(f"{target} wants certificates, and this broker has none")
        chosen.append(("grpc.ssl_target_name_override", self._named))
        return grpc.aio.secure_channel(target.address, self._certificates.for_dialing(), options=chosen)

    async def _greet(self, stream: DialedStream) -> Greeting:
        await stream.write(packet([frame(self._links.greeting())]))
        try:
            answer = await stream.read_message()
        except PeerRefused as error:
            self._links.refused(str(self.target), error)
            raise
        match answer:
            case None:
                raise ConnectionError("it ended the call without an answer")
            case GoAway(kind, reason):
                refusal = PeerRefused(kind, reason)
                if reason != self._reason:
                    self._links.refused(str(self.target), refusal, by_them=True)
                raise refusal
            case Greeting():
                return answer
        raise PeerRefused(FRAME, "it does not greet")

    async def _accept(self, stream: DialedStream, peer: Greeting, proven: frozenset[str] | None) -> None:
        """Answers the greeting of the broker."""
        try:
            self._links.admit(peer, dialed=True, proven=proven)
        except PeerRefused as refusal:
            if refusal.kind == DUPLICATE:
                self._identity = peer.identity
            if refusal.reason != self._reason:
                self._links.refused(peer.name, refusal)
            with suppress(ConnectionError):
                await stream.write(packet([frame(GoAway(refusal.kind, refusal.reason))]))
            raise
        await stream.write(packet([frame(Ready())]))

    async def _keep(self, stream: DialedStream, peer: Greeting, proven: frozenset[str] | None) -> None:
        self._identity = peer.identity
        began = time.monotonic()
        kind, reason = await self._links.keep(stream, peer, where=str(self.target), dialed=True, proven=proven)
        # After a link that ended at once, the pause grows.
        lasted = time.monotonic() - began > self._settings.pause_seconds_max
        self._attempts = 0 if lasted else self._attempts + 1
        self._reason, self._at = reason, time.time()
        if kind == FRAME:
            # The broker would send the same again.
            raise PeerRefused(kind, reason)
