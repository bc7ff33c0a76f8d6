"""Errors of the broker that a publisher, a subscriber or an operator can see.

The API answers each with a problem document (RFC 9457) whose ``type`` ends in ``code``.
"""

from __future__ import annotations

from twigcast.errors import RejectedMessage, TwigcastError


class BrokerError(TwigcastError):
    """An operation that the broker could not carry out. The reason says in a sentence what happened and what to do."""

    code = "broker"
    status = 500
    """HTTP status of the problem document."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class StoreUnavailable(BrokerError):
    """A failure of the store. What was not acknowledged was not stored, or can be sent again."""

    code = "store-unavailable"
    status = 503


class StoreFull(StoreUnavailable):
    """A full disk below the store. Publishing goes on by itself when there is space again."""

    code = "store-full"
    status = 507


class StoreInUse(BrokerError):
    """A store that another broker works on."""

    code = "store-in-use"


class TenureLost(StoreUnavailable):
    """A store that another broker has taken over since: this one writes nothing to it any more."""

    code = "tenure-lost"

    @classmethod
    def to(cls, address: str) -> TenureLost:
        """Returns the error, with the address of the broker that is active now."""
        return cls(f"another broker{f' at {address}' if address else ''} has taken over the store; send it there")


class Standby(BrokerError):
    """A broker that waits until another one on the same store ends; ``active`` is the address of that one."""

    code = "standby"
    status = 503

    def __init__(self, reason: str, active: str | None = None) -> None:
        super().__init__(reason)
        self.active = active

    @classmethod
    def behind(cls, active: str | None) -> Standby:
        """Returns the error of a broker that is not active, with the address of the one that is."""
        where = f"the one at {active} is active" if active else "nobody knows of an active one"
        return cls(f"this broker is a standby, and {where}; ask that one, or try again in a second", active)


class SecretsSealed(BrokerError):
    """A store whose secrets are sealed with a key that the broker was not given, or a key that cannot be used."""

    code = "secrets-sealed"

    @classmethod
    def of(cls, *, has_key: bool) -> SecretsSealed:
        """Returns the error of a secret that no key opens."""
        what = "none of the keys opens a secret of this store" if has_key else "the secrets of this store are sealed"
        return cls(f"{what}: set TWIGCAST_SECRETS_KEY, or secrets_key_file, to the key that it had")


class StoreDamaged(BrokerError):
    """A store that is damaged, or of a version that this one cannot migrate."""

    code = "store-damaged"


class UnknownObject(BrokerError):
    """A request for an object that does not exist, or belongs to another tenant."""

    code = "not-found"
    status = 404


class Conflict(BrokerError):
    """A request that the state of its object does not allow, for instance because the object exists already."""

    code = "conflict"
    status = 409


class UnknownDelivery(BrokerError):
    """An id of a delivery that was never handed out, or is of another subscriber; ``newest`` is the newest valid id."""

    code = "unknown-delivery"
    status = 409

    def __init__(self, reason: str, newest: str | None = None) -> None:
        super().__init__(reason)
        self.newest = newest

    @classmethod
    def of(cls, unknown: str, newest: str | None) -> UnknownDelivery:
        """Returns the error of an id, with the newest one that was handed out."""
        hint = "nothing was handed out yet" if newest is None else f"the newest one is {newest}"
        return cls(f"no delivery {unknown} of this subscriber was handed out: {hint}", newest)


class IdReused(BrokerError):
    """A publication under an id that its source used before for another body; ``seq`` is the message of that id."""

    code = "id-reused"
    status = 409

    def __init__(self, reason: str, seq: int = 0, message_id: str | None = None) -> None:
        super().__init__(reason)
        self.seq = seq
        self.message_id = message_id

    @classmethod
    def of(cls, source: str, message_id: str, seq: int) -> IdReused:
        """Returns the error of a publication whose id is taken."""
        what = f"the source {source!r} published another body under the id {message_id!r}, as message {seq}"
        return cls(f"{what}; this one was not stored: give each message an id of its own", seq, message_id)


class Invalid(BrokerError):
    """A request that cannot be understood or carried out."""

    code = "invalid"
    status = 422


class Unauthorized(BrokerError):
    """A request without a token, or with an unknown one."""

    code = "unauthorized"
    status = 401


class Forbidden(BrokerError):
    """A request that its token does not permit."""

    code = "forbidden"
    status = 403


class TooLarge(BrokerError):
    """A body over the limit."""

    code = "too-large"
    status = 413


class LimitReached(BrokerError):
    """A limit of a tenant that is reached. Waiting does not help; deleting something or a higher limit does."""

    code = "limit-reached"
    status = 409

    def __init__(self, reason: str, limit: str = "", value: int = 0) -> None:
        super().__init__(reason)
        self.limit = limit
        self.value = value

    @classmethod
    def of(cls, items_: str, limit: str, value: int) -> LimitReached:
        """Returns the error of a tenant that has as many objects of a kind as it may."""
        return cls(f"this tenant has as many {items_} as it may (the limit is {limit} = {value:,})", limit, value)


class TooMany(BrokerError):
    """A rate or number of running operations over the limit, with the seconds after which a new attempt may succeed."""

    code = "too-many"
    status = 429

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class QueueFull(TooMany):
    """A message for a subscriber for which too much waits, and whose subscription lets publishers be refused."""

    code = "queue-full"


class PreconditionFailed(BrokerError):
    """A change of something that is not as its sender saw it, since others changed or deleted it. Nothing was done."""

    code = "precondition-failed"
    status = 412

    def __init__(self, reason: str, etag: str | None = None) -> None:
        super().__init__(reason)
        self.etag = etag
        """Its entity tag now; ``None`` if it does not exist, or on the client's side."""


class UrlRefused(BrokerError):
    """An address of a webhook or feed that is private, link-local, or not HTTP."""

    code = "url-refused"
    status = 422

    def __init__(self, reason: str, address: str | None = None) -> None:
        super().__init__(reason)
        self.address = address
        """The address that a name leads to, where it is none of the public internet: for operators only."""


class DisallowedMessage(RejectedMessage):
    """A message that is well-formed, but that the settings of its source do not allow."""

    code = "message-disallowed"

    def __init__(self, line: int | None, column: int | None, reason: str) -> None:
        super().__init__(line, column, reason)
        self.line = line
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class Stopping(BrokerError):
    """A broker that is being stopped, or has not been started. What was not acknowledged was not done."""

    code = "stopping"
    status = 503
