"""The sessions of people who are signed in to the console.

A session begins with a token and lives in memory: its id is a random cookie, of which only the digest is kept. It ends
with signing out, after hours without use, when its token is deleted, and when the broker stops.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

IDLE_SECONDS: Final = 12 * 3600.0
"""Time without use after which a session ends."""

LIFE_SECONDS: Final = 7 * 24 * 3600.0
"""Time after which a session ends in any case."""

SESSIONS_MAX: Final = 10_000
"""Number of sessions at one time; beyond it the one that was not used for longest ends."""


@dataclass(slots=True)
class SignInSession:
    """A sign-in."""

    token_digest: bytes
    """Digest of the token that it began with."""
    started: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """Token that every change must carry."""
    tenant_id: int | None = None
    """The tenant that an administrator of the broker has switched to; ``None`` for the one of the token."""
    notice: str | None = None
    """Notice at the top of the next page."""
    new_token: str | None = field(default=None, repr=False)
    """A new token, to be shown once."""

    def permits(self, csrf: str) -> bool:
        """Returns whether a change carries the right token."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "surrogatepass"))


class SignInSessions:
    """The sessions of one broker."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, SignInSession] = OrderedDict()

    def start(self, token_digest: bytes) -> str:
        """Begins a session, and returns the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        now = self._clock()
        with self._lock:
            self._sessions[_digest(cookie)] = SignInSession(token_digest, now, now)
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        return cookie

    def find(self, cookie: str) -> SignInSession | None:
        """Returns the session of a cookie, if it has not ended."""
        key = _digest(cookie)
        now = self._clock()
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                return None
            if now - session.used > IDLE_SECONDS or now - session.started > LIFE_SECONDS:
                del self._sessions[key]
                return None
            session.used = now
            self._sessions.move_to_end(key)
            return session

    def end(self, cookie: str) -> None:
        """Ends a session."""
        with self._lock:
            self._sessions.pop(_digest(cookie), None)


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
