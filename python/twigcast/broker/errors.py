"""Errors of the broker that a publisher, a subscriber or an operator can see.

The API answers with each as a problem document (RFC 9457) whose ``type`` ends in ``code``.
"""

from __future__ import annotations

from twigcast.errors import TwigcastError


class BrokerError(TwigcastError):
    """Something that the broker could not do.

    Args:
        reason: What happened and what to do, in one sentence.
    """

    code = "broker"
    status = 500
    """HTTP status of the problem document."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class StoreUnavailable(BrokerError):
    """The store did not take or give something; what was not acknowledged was not stored, or may be sent again."""

    code = "store-unavailable"
    status = 503


class StoreFull(StoreUnavailable):
    """There is no room left where the store lies. Publishing goes on by itself when there is."""

    code = "store-full"
    status = 507


class StoreInUse(BrokerError):
    """Another broker works on the store."""

    code = "store-in-use"


class StoreDamaged(BrokerError):
    """The store is damaged, or belongs to another version that this one cannot migrate."""

    code = "store-damaged"


class NotFound(BrokerError):
    """There is no such thing, or it belongs to another tenant."""

    code = "not-found"
    status = 404


class Conflict(BrokerError):
    """It is there already, or its state does not allow it."""

    code = "conflict"
    status = 409


class Invalid(BrokerError):
    """A request that cannot be understood or carried out as it stands."""

    code = "invalid"
    status = 422


class Unauthorized(BrokerError):
    """No token, or one that is not known."""

    code = "unauthorized"
    status = 401


class Forbidden(BrokerError):
    """The token does not permit it."""

    code = "forbidden"
    status = 403


class TooLarge(BrokerError):
    """A body over the limit."""

    code = "too-large"
    status = 413


class LimitReached(BrokerError):
    """A tenant has as many of something as it may: no waiting helps, but deleting some, or a higher limit.

    Args:
        reason: What there are too many of.
        limit: The setting.
        value: What it is set to.
    """

    code = "limit-reached"
    status = 409

    def __init__(self, reason: str, limit: str = "", value: int = 0) -> None:
        super().__init__(reason)
        self.limit = limit
        self.value = value

    @classmethod
    def of(cls, items_: str, limit: str, value: int) -> LimitReached:
        """The error of a tenant that has as many of these things as it may."""
        return cls(f"this tenant has as many {items_} as it may (the limit is {limit} = {value:,})", limit, value)


class TooMany(BrokerError):
    """More at a time than is taken: a rate, or what is under way.

    Args:
        reason: Which limit, and how much it is.
        retry_after: Seconds after which it may be tried again, where waiting helps.
    """

    code = "too-many"
    status = 429

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class UrlRefused(BrokerError):
    """A webhook or feed whose address is private, link-local, or not HTTP."""

    code = "url-refused"
    status = 422


class Stopping(BrokerError):
    """The broker is being stopped, or has not been started; what was not answered was not done."""

    code = "stopping"
    status = 503
