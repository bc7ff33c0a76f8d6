"""Sources, tenants and tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self

from pydantic import Field, model_validator

from twigcast.broker.api.context import Name
from twigcast.broker.api.models.common import Model, Text, Url, moment
from twigcast.broker.config import TenantLimits
from twigcast.broker.model import (
    Scope,
    Source,
    Tenant,
    Token,
)


class SourceIn(Model):
    """The settings of a source."""

    kind: Literal["push", "rss", "atom", "http-folder"] = Field(
        default="push", description="`push`: the source publishes by itself; all others are polled."
    )
    url: Url | None = Field(default=None, description="The address that is polled.")
    interval: float = Field(default=300.0, ge=1, le=86_400 * 31, description="Seconds between polls.")
    dtd: Text | None = Field(
        default=None,
        description="The text of a DTD that its messages are said to follow. It is stored with the source.",
    )
    paused: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.kind == "push") != (self.url is None):
            raise ValueError("a source that is polled needs a url, one that pushes has none")
        return self


class SourceOut(SourceIn):
    """A source."""

    name: str
    last_poll: datetime | None
    last_error: str | None
    failures: int

    @classmethod
    def of(cls, source: Source) -> Self:
        """Returns a source as the API shows it."""
        at = source.state.get("last_poll")
        error = source.state.get("last_error")
        return cls.model_construct(
            name=source.name,
            kind=source.kind,
            url=source.url,
            interval=source.interval,
            dtd=source.dtd,
            paused=source.paused,
            last_poll=None if at is None else moment(float(at)),
            last_error=None if error is None else str(error),
            failures=int(source.state.get("failures", 0)),
        )


class SourcesOut(Model):
    """All sources."""

    sources: list[SourceOut]


class TenantIn(Model):
    """A new tenant."""

    name: Name
    limits: dict[str, int] = Field(default_factory=dict, description="Limits that differ from the broker's.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        TenantLimits(**self.limits)
        return self


class LimitsIn(Model):
    """The limits of a tenant."""

    limits: dict[str, int]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        TenantLimits(**self.limits)
        return self


class TenantOut(Model):
    """A tenant."""

    name: str
    limits: dict[str, int]

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """Returns a tenant as the API shows it."""
        return cls(name=tenant.name, limits=dict(tenant.limits))


class TenantsOut(Model):
    """All tenants."""

    tenants: list[TenantOut]


class TokenIn(Model):
    """A requested token."""

    name: Name = Field(description="Its purpose.")
    scopes: list[Scope] = Field(min_length=1, max_length=3)
    tenant: Name | None = Field(default=None, description="The tenant, for operators; by default your own.")


class TokenOut(Model):
    """A token, without its secret."""

    id: int
    name: str
    scopes: list[Scope]
    created: datetime

    @classmethod
    def of(cls, token: Token) -> Self:
        """Returns a token as the API shows it."""
        return cls(id=token.id, name=token.name, scopes=sorted(token.scopes), created=moment(token.created))


class NewTokenOut(TokenOut):
    """A new token."""

    token: str = Field(description="The token itself. It is not stored, and never shown again.")


class TokensOut(Model):
    """The tokens of a tenant."""

    tokens: list[TokenOut]


class WhoOut(Model):
    """The sender of a request."""

    tenant: str
    token: TokenOut
    operator: bool = Field(description="Whether the token administers the whole broker.")


class StatisticsOut(Model):
    """The counts of what the tenant has stored."""

    messages: int
    rejected: int
    subscriptions: int
    subscribers: int
    pending: int
    dead_letters: int
    bytes: int
