"""Requests of people who are signed in: identity, permissions and responses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import ApiContext, certificate_of, context_of
from twigcast.broker.console import pages
from twigcast.broker.console.activity import Activity
from twigcast.broker.console.forms import FormFields, form_of, query_of
from twigcast.broker.errors import BrokerError, Forbidden, Unauthorized, UnknownObject
from twigcast.broker.model import Scope, Tenant
from twigcast.broker.store.store import Store
from twigcast.errors import InternalError, TwigcastError

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("twigcast.console")

STATUS_OF_USER_ERRORS: Final = 422

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
    """The sessions of one broker, in memory. The id is a random cookie, of which only the digest is kept."""

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


@dataclass(slots=True)
class Console:
    """The context that all pages share."""

    sessions: SignInSessions = field(default_factory=SignInSessions)
    activity: Activity = field(default_factory=Activity)


@dataclass(slots=True)
class PageRequest:
    """A request of a person who is signed in."""

    http: Request
    console: Console
    context: ApiContext
    session: SignInSession
    principal: Principal
    """The sender. Its tenant is the one that is shown: an administrator of the broker can switch to others."""
    home: Tenant
    """The tenant of the person who signed in."""
    form: FormFields
    """The submitted form; of a page, its query string."""

    @property
    def tenant(self) -> Tenant:
        """The tenant that is shown."""
        return self.principal.tenant

    @property
    def tenant_id(self) -> int:
        """The id of this tenant."""
        return self.principal.tenant.id

    @property
    def is_away(self) -> bool:
        """Returns whether another tenant than the own one is shown."""
        return self.home.id != self.tenant_id

    @property
    def store(self) -> Store:
        """The store of the broker."""
        return self.context.broker.store

    @property
    def is_admin(self) -> bool:
        """Returns whether the sender may administer its tenant."""
        return Scope.ADMIN in self.principal.token.scopes

    @property
    def is_operator(self) -> bool:
        """Returns whether the sender may administer the broker."""
        return self.is_admin and self.principal.is_operator

    def may(self, scope: Scope) -> bool:
        """Returns whether the sender has a scope."""
        return self.is_admin or scope in self.principal.token.scopes

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a blocking function, such as one of the store, in a thread."""
        return await asyncio.to_thread(partial(function, *args, **kwargs))

    async def ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns the result of a function that evaluates a query, in the threads that tenants share."""
        return await self.context.broker.questions.run(self.tenant_id, partial(function, *args, **kwargs))

    def fragment(self, template: str, /, **values: Any) -> str:
        """Returns a template as HTML."""
        return pages.render(template, {"request": self, "csrf": self.session.csrf, **values})

    def page(self, template: str, /, status: int = 200, **values: Any) -> Response:
        """Returns a template as a response."""
        notice, self.session.notice = self.session.notice, None
        return pages.html(self.fragment(template, notice=notice, here=self.http.url.path, **values), status)

    def go(self, address: str, notice: str | None = None) -> Response:
        """Redirects the browser to a page, which first shows a notice."""
        self.session.notice = notice
        return pages.redirect(address)


Handler = Callable[[PageRequest], Awaitable[Response]]


def cookie_name(request: Request) -> str:
    """Returns the name of the session's cookie. Brokers on different ports of one host share their cookies."""
    return f"twigcast_session_{request.url.port or 0}"


def sets_cookie(response: Response, request: Request, name: str, value: str, *, path: str = "/") -> None:
    """Sets a cookie that scripts and other sites do not see."""
    response.set_cookie(name, value, path=path, httponly=True, samesite="strict", secure=request.url.scheme == "https")


def is_same_origin(request: Request) -> bool:
    """Returns whether a form was not sent by another site, as far as the browser tells."""
    reported = request.headers.get("sec-fetch-site")
    if reported is not None:
        return reported in ("same-origin", "none")
    origin = request.headers.get("origin")
    # A proxy may have replaced the host of the browser's request.
    public_url = context_of(request).settings.public_url or ""
    return origin is None or urlsplit(origin).netloc in (request.url.netloc, urlsplit(public_url).netloc or None)


class PageAdmission:
    """The admission of requests to pages."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def route(
        self, path: str, handler: Handler, *, change: bool = False, scope: Scope | None = Scope.SUBSCRIBE
    ) -> Route:
        """Returns the route of a page below ``/console``, or of a change (a submitted form), which needs a scope."""

        async def endpoint(request: Request) -> Response:
            return await self._answer(request, handler, change, scope)

        address = path if path == "/" else pages.BASE + path
        return Route(address, endpoint, methods=["POST" if change else "GET"], include_in_schema=False)

    async def _answer(self, request: Request, handler: Handler, change: bool, scope: Scope | None) -> Response:
        page_request = None
        try:
            page_request = await self.admit(request)
            if page_request is None:
                return _to_sign_in(request)
            page_request.form = await form_of(request) if change else query_of(request)
            if change:
                _check_origin(page_request)
            if scope is not None:
                page_request.principal.require(scope)
            return await handler(page_request)
        except TwigcastError as error:
            return _failure(request, page_request, error)

    async def signed_in(self, request: Request) -> Principal | None:
        """Returns the person who is signed in, as the token of the session says."""
        page_request = await self.admit(request)
        return None if page_request is None else page_request.principal

    async def admit(self, request: Request) -> PageRequest | None:
        """Returns the page request of an HTTP request, if the sender is signed in."""
        session = self.console.sessions.find(request.cookies.get(cookie_name(request), ""))
        if session is None:
            return None
        context = context_of(request)
        try:
            principal = await context.authenticator.admit_digest(session.token_digest, certificate_of(request))
        except Unauthorized:
            self.console.sessions.end(request.cookies.get(cookie_name(request), ""))
            return None
        home = principal.tenant
        if session.tenant_id is not None and session.tenant_id != home.id:
            principal = await _elsewhere(context, principal, session)
        return PageRequest(request, self.console, context, session, principal, home, FormFields({}))


async def _elsewhere(context: ApiContext, principal: Principal, session: SignInSession) -> Principal:
    """Returns an administrator of the broker, acting for another tenant."""
    if principal.is_operator and Scope.ADMIN in principal.token.scopes:
        for tenant in await asyncio.to_thread(context.broker.store.tenants):
            if tenant.id == session.tenant_id:
                return replace(principal, tenant=tenant, limits=context.settings.limits_of(tenant))
    session.tenant_id = None
    return principal


def _check_origin(page_request: PageRequest) -> None:
    supplied = page_request.form.text("csrf")
    if not is_same_origin(page_request.http) or not page_request.session.permits(supplied):
        raise Forbidden("this form does not come from the console, or is too old; load the page again")


def _to_sign_in(request: Request) -> Response:
    if request.headers.get("x-requested-with"):
        return pages.html("signed out", 401)
    target = request.url.path if request.method == "GET" else ""
    if target and request.url.query:
        target += f"?{request.url.query}"
    return pages.redirect(pages.link("/sign-in", next=target if target not in ("", "/") else None))


def _failure(request: Request, page_request: PageRequest | None, error: TwigcastError) -> Response:
    """Returns a page that describes an error."""
    status = error.status if isinstance(error, BrokerError) else STATUS_OF_USER_ERRORS
    if isinstance(error, InternalError):
        status = 500
    if status >= 500:
        _log.error("%s %s failed: %s", request.method, request.url.path, error)
    if page_request is None:
        return pages.html(pages.render("refused.html", {"status": status, "reason": str(error)}), status)
    titles = {403: "Not permitted", 404: "Not found", 409: "Not possible now", 503: "The store does not answer"}
    title = titles.get(status, "That did not work")
    return page_request.page(
        "error.html", status, title=title, reason=str(error), missing=isinstance(error, UnknownObject)
    )
