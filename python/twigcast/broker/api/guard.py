"""Checks every request before anything else looks at it.

A field, a parameter or a member that is given twice means one thing to one program and another to the next: a proxy may
check the first and the broker use the last. So it is refused, whichever would be used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_plus, unquote_to_bytes

from starlette.requests import Request

from twigcast.broker.api.context import context_of, sender_of
from twigcast.broker.api.problems import Problem
from twigcast.broker.door import TARGET
from twigcast.broker.errors import Invalid, Unauthorized
from twigcast.broker.model import Scope

_SHOWN_MAX: Final = 100

ALWAYS: Final = frozenset({"/health", "/ready", "/console/sign-in"})
"""Paths that are answered in every connection: what asks for health restarts a broker that does not answer, and an
operator has to sign in first."""

_STATIC: Final = "/console/static/"


_LONG: Final = 64 << 10

_SINGLE: Final = frozenset({b"authorization", b"content-type", b"last-event-id", b"twigcast-source-key"})
"""Fields that have one value."""

_AUTHORITY: Final = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)


def host_of(scope: Mapping[str, Any]) -> bytes:
    """Returns the host that a request is for; raises Problem unless exactly one is given (RFC 9112, section 3.2).

    Also checks other fields that have one value: raises Invalid if one is given twice.
    """
    hosts: list[bytes] = []
    seen: set[bytes] = set()
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value.strip(b" \t"))
        elif name in _SINGLE:
            if name in seen:
                raise Invalid(f"the header {name.decode().title()} is given twice")
            seen.add(name)
    if len(hosts) != 1:
        what = "no Host header" if not hosts else f"{len(hosts)} Host headers"
        raise Problem(400, "invalid-host", f"the request has {what}; it must have one")
    if (target := scope.get(TARGET)) is not None:
        _check_target(target, hosts[0])
    return hosts[0]


def _check_target(target: bytes, host: bytes) -> None:
    """Raises Problem if a request is to an address whose host is not that of its header."""
    named = _AUTHORITY.match(target)
    if named is not None and named[1].lower() != host.lower():
        shown = named[1][:_SHOWN_MAX].decode("latin-1")
        raise Problem(400, "invalid-host", f"the request is to {shown!r}, but its Host header names another host")


def check_query(query_string: bytes) -> None:
    """Raises Invalid if a parameter is given twice, or is no UTF-8: a name must not become another one."""
    if b"%" in query_string:
        try:
            unquote_to_bytes(query_string).decode()
        except UnicodeDecodeError:
            raise Invalid("the parameters are not percent-encoded UTF-8") from None
    if b"&" not in query_string:
        return
    seen: set[str] = set()
    for part in query_string.decode("latin-1").split("&"):
        name = unquote_plus(part.partition("=")[0])
        if part and name in seen:
            raise Invalid(f"the parameter {name[:_SHOWN_MAX]!r} is given twice")
        seen.add(name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    results = dict(pairs)
    if len(results) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Invalid(f"the JSON member {name[:_SHOWN_MAX]!r} is given twice")
            seen.add(name)
    return results


_decoder: Final = json.JSONDecoder(object_pairs_hook=_once)


def check_members(body: bytes) -> None:
    """Raises Invalid if an object in a JSON body has a member twice. A body that is no JSON is refused by its readers.

    Their parsers would also read UTF-16, in which repeated members could hide; JSON over a network is UTF-8 (RFC 8259).
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"the JSON is not UTF-8, from byte {error.start:,} on") from None
    if "\0" in text:
        raise Invalid("the JSON is not UTF-8: it has zero bytes")
    try:
        _decoder.decode(text)
    except json.JSONDecodeError:
        return
    except ValueError:
        raise Invalid("a number in the JSON has too many digits") from None
    except RecursionError:
        raise Invalid("the JSON is nested too deeply") from None


def check_line(line: bytes, names: Sequence[bytes]) -> None:
    """Checks the same of a JSON line that has few members: in most cases counting their names suffices."""
    # A long one is read in a fraction of the time that counting takes.
    if len(line) > _LONG or b"\\u" in line or any(line.count(name) > 1 for name in names):
        check_members(line)


async def may_use_reserve(request: Request) -> bool:
    """Returns whether a request is answered in a connection of the reserve: of health, or by an operator."""
    path: str = request.scope["path"]
    if path in ALWAYS or path.startswith(_STATIC):
        return True
    context = context_of(request)
    if path == "/metrics" and context.settings.metrics_public:
        return True
    has_token = bool(request.headers.get("authorization"))
    try:
        principal = await sender_of(request) if has_token else await context.signed_in(request)
    except Unauthorized:
        return False
    return principal is not None and principal.is_operator and Scope.ADMIN in principal.token.scopes
