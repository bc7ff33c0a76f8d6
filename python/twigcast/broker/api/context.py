"""The context of all routes: the broker, the settings, the sender, and names in paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Path, Query, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry
from pydantic import AfterValidator, BeforeValidator, StringConstraints
from starlette.requests import HTTPConnection, Request

from twigcast.broker.api.access import Authenticator, Principal, Rates
from twigcast.broker.api.envelopes import Envelopes
from twigcast.broker.api.preconditions import Locks
from twigcast.broker.api.streams import AutomaticAcks, Streams
from twigcast.broker.broker import Broker
from twigcast.broker.config import Settings
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.model import AttemptState, Scope
from twigcast.broker.proxies import CERTIFICATE
from twigcast.reading.text import NO_CHARACTER, half_pair

if TYPE_CHECKING:
    from twigcast.broker.overlay.service import Overlay

NAME_LENGTH_MAX = 512
"""Characters of a key, or of the name of a subscriber, source, tenant or token."""


async def _nobody(_: Request) -> Principal | None:
    return None


@dataclass(slots=True)
class ApiContext:
    """The objects that all routes share."""

    broker: Broker
    settings: Settings
    authenticator: Authenticator
    urls: UrlPolicy
    rates: Rates = field(default_factory=Rates)
    streams: Streams = field(default_factory=Streams)
    automatic_acks: AutomaticAcks = field(init=False)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Registry of metrics."""
    envelopes: Envelopes = field(default_factory=Envelopes)
    overlay: Overlay | None = None
    """The overlay of this broker with others."""

    pushing: Callable[[int], AttemptState | None] = field(default=lambda queue_id: None)
    """Returns how a queue is being pushed."""

    signed_in: Callable[[Request], Awaitable[Principal | None]] = field(default=_nobody)
    """Returns the person who is signed in to the console, by the cookie of a request."""

    locks: Locks = field(default_factory=Locks)
    """Locks of what is changed under preconditions."""

    sources_changed: Callable[[], None] = field(default=lambda: None)
    """Called when a source was registered, changed or deleted."""

    def __post_init__(self) -> None:
        self.automatic_acks = AutomaticAcks(self.broker)


def context_of(connection: HTTPConnection) -> ApiContext:
    """Returns the context of the application that answers."""
    result: ApiContext = connection.app.state.context
    return result


def certificate_of(connection: HTTPConnection) -> str | None:
    """Returns the fingerprint of the certificate that the client has shown to a trusted proxy, if it has shown one."""
    result: str | None = connection.scope.get(CERTIFICATE)
    return result


async def sender_of(connection: HTTPConnection) -> Principal:
    """Returns the sender of a request, by its token and its certificate; raises Unauthorized without a known token."""
    authorization = connection.headers.get("authorization")
    return await context_of(connection).authenticator.admit(authorization, certificate_of(connection))


Shared = Annotated[ApiContext, Depends(context_of)]
"""Parameter type: the context."""

_bearer = HTTPBearer(auto_error=False, description="An API token, `tc_...`.")


def _requires(scope: Scope | None, *, narrowed: bool = False) -> Callable[..., Awaitable[Principal]]:
    async def admit(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
    ) -> Principal:
        principal = await sender_of(request)
        if narrowed:
            if scope is not None:
                principal.require_some(scope)
        elif scope is not None:
            principal.require(scope)
        else:
            principal.require_whole()
        request.state.is_operator = principal.is_operator and Scope.ADMIN in principal.token.scopes
        return principal

    return admit


Anyone = Annotated[Principal, Depends(_requires(None))]
"""Parameter type: the sender, with any token that is not narrowed."""
Bearer = Annotated[Principal, Depends(_requires(None, narrowed=True))]
"""Parameter type: the sender, with any token at all."""
Publisher = Annotated[Principal, Depends(_requires(Scope.PUBLISH))]
"""Parameter type: the sender, with the scope ``publish``."""
Subscriber = Annotated[Principal, Depends(_requires(Scope.SUBSCRIBE))]
"""Parameter type: the sender, with the scope ``subscribe``."""
Receiver = Annotated[Principal, Depends(_requires(Scope.SUBSCRIBE, narrowed=True))]
"""Parameter type: the sender, with the scope ``subscribe``, perhaps for some subscribers only."""
Admin = Annotated[Principal, Depends(_requires(Scope.ADMIN))]
"""Parameter type: the sender, with the scope ``admin``, for its tenant."""


def _operator(principal: Admin) -> Principal:
    principal.require_operator()
    return principal


Operator = Annotated[Principal, Depends(_operator)]
"""Parameter type: an administrator of the whole broker."""


# --- names ------------------------------------------------------------------------------------------------------------


def check_kept(value: str) -> str:
    """Returns a text; raises ValueError if not every store can keep it."""
    if "\0" in value:
        raise ValueError("the character U+0000 cannot be kept")
    return value


def check_name(value: str) -> str:
    """Returns a key or name; raises ValueError if it cannot be stored, or not be written in a path."""
    check_kept(value)
    if half_pair(value) is not None:
        raise ValueError(NO_CHARACTER)
    if value in {".", ".."}:
        raise ValueError(f"{value!r} cannot be written in the path of a URL")
    return value


def _decoded(value: Any) -> Any:
    """Returns a segment of a path as text. Paths come as they were sent, so that a name may hold a slash."""
    if not isinstance(value, str):
        return value
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("it is not percent-encoded UTF-8") from None


_length = StringConstraints(min_length=1, max_length=NAME_LENGTH_MAX)

Name = Annotated[str, _length, AfterValidator(check_name)]
"""A key or name in a body."""
PathName = Annotated[str, _length, BeforeValidator(_decoded), AfterValidator(check_name), Path()]
"""A key or name in a path, percent-encoded there."""
QueryName = Annotated[str, _length, AfterValidator(check_name), Query()]
"""A key or name in a query string."""
