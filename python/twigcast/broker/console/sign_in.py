"""Signing in and out."""

from __future__ import annotations

import hmac
import secrets
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.context import certificate_of, context_of
from twigcast.broker.console import pages
from twigcast.broker.console.forms import form_of, query_of
from twigcast.broker.console.requests import PageAdmission, PageRequest, cookie_name, is_same_origin, sets_cookie
from twigcast.broker.errors import Forbidden, Unauthorized
from twigcast.broker.model import Scope
from twigcast.broker.tokens import digest
from twigcast.errors import TwigcastError

_PATH: Final = "/sign-in"


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    address = pages.BASE + _PATH
    return [
        Route(address, _sign_in_page, methods=["GET"], include_in_schema=False),
        Route(address, partial(_sign_in, admission), methods=["POST"], include_in_schema=False),
        admission.route("/sign-out", _sign_out, change=True, scope=None),
    ]


async def _sign_in_page(request: Request) -> Response:
    try:
        target = query_of(request).text("next")
    except TwigcastError:
        target = ""
    return _page(request, target)


async def _sign_in(admission: PageAdmission, request: Request) -> Response:
    target = ""
    try:
        form = await form_of(request)
        target = form.text("next")
        _check_origin(request, form.text("csrf"))
        secret = form.line("token")
        principal = await context_of(request).authenticator.admit_token(secret, certificate_of(request))
        principal.require(Scope.SUBSCRIBE)
    except Unauthorized as error:
        return _page(request, target, f"This token does not open the console: {error}.", 401)
    except Forbidden as error:
        return _page(request, target, f"{error}: the console needs it.", 403)
    except TwigcastError as error:
        return _page(request, target, str(error), 422)
    admission.console.sessions.end(request.cookies.get(cookie_name(request), ""))
    response = pages.redirect(_own_page(target))
    sets_cookie(response, request, cookie_name(request), admission.console.sessions.start(digest(secret)))
    response.delete_cookie(_form_cookie(request), path=pages.BASE + _PATH)
    return response


async def _sign_out(request: PageRequest) -> Response:
    request.console.sessions.end(request.http.cookies.get(cookie_name(request.http), ""))
    response = pages.redirect(pages.link(_PATH))
    response.delete_cookie(cookie_name(request.http))
    return response


def _page(request: Request, target: str, reason: str | None = None, status: int = 200) -> Response:
    """Returns the form with the value of its cookie, so that no other site can sign a person in."""
    mark = secrets.token_urlsafe(18)
    values = {"csrf": mark, "next": target, "reason": reason}
    response = pages.html(pages.render("sign_in.html", values), status)
    sets_cookie(response, request, _form_cookie(request), mark, path=pages.BASE + _PATH)
    return response


def _form_cookie(request: Request) -> str:
    return f"{cookie_name(request)}_form"


def _check_origin(request: Request, supplied: str) -> None:
    mark = request.cookies.get(_form_cookie(request), "")
    if not mark or not hmac.compare_digest(mark.encode(), supplied.encode()) or not is_same_origin(request):
        raise Forbidden("this form is too old, or the browser keeps no cookies; try once more")


def _own_page(target: str) -> str:
    """Returns the page to go to, if it is one of the console."""
    is_own = target.startswith(f"{pages.BASE}/") and "\\" not in target and target.isprintable()
    return target if is_own else "/"
