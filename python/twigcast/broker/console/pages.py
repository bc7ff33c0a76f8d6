"""Responses from templates: rendering, formats of values, and the headers of every page."""

from __future__ import annotations

import hashlib
import mimetypes
import re
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.console.highlighting import HighlightSpan, visible
from twigcast.broker.delivery.channels import DELIVERY_KINDS
from twigcast.broker.options import refused_dialect
from twigcast.errors import InternalError

BASE: Final = "/console"
"""Path of all pages but the first one."""

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers would hide the origin of forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Cache-Control": "no-store",
}
"""Headers of every page."""

_DOWNLOAD_HEADERS: Final = {**HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox"}

_TICKED: Final = re.compile("`([^`]+)`")

_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")


# Formats of values ----------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Returns a number with thousands separated; a small fraction with one decimal."""
    if 0 < value < 0.1:
        return "< 0.1"
    whole = round(value)
    return f"{value:,.1f}" if whole != value and abs(value) < 100 else f"{whole:,}"


def size(count: int) -> str:
    """Returns a number of bytes for people."""
    value, unit = float(count), 0
    while value >= 1_000 and unit < len(_UNITS) - 1:
        value, unit = value / 1_000, unit + 1
    return f"{count:,} {'byte' if count == 1 else 'bytes'}" if not unit else f"{value:.3g} {_UNITS[unit]}"


def moment(seconds: float) -> str:
    """Returns a time for machines."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def exact(seconds: float) -> str:
    """Returns a time for people, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(seconds: float, now: float | None = None) -> str:
    """Returns how long ago, or in how long, a time is."""
    passed = (time.time() if now is None else now) - seconds
    reported = duration(abs(passed))
    if abs(passed) < 1:
        return "now"
    return f"{reported} ago" if passed > 0 else f"in {reported}"


def duration(seconds: float) -> str:
    """Returns a span of time in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """Returns a count with its noun."""
    return f"{count:,} {singular if count == 1 else plural_form or singular + 's'}"


def seen(value: object) -> Markup:
    """Returns text by others, with invisible characters replaced by their codes."""
    parts = [
        Markup('<span class="x-unseen">{}</span>').format(span.text) if span.kind == "unseen" else span.text
        for span in visible(HighlightSpan(str(value), "text"))
    ]
    return Markup().join(parts)


def ticked(value: object) -> Markup:
    """Returns a sentence whose names between back-ticks are marked as code."""
    parts = [
        Markup("<code>{}</code>").format(seen(part)) if index % 2 else seen(part)
        for index, part in enumerate(_TICKED.split(str(value)))
    ]
    return Markup().join(parts)


def safe_json(text: str) -> Markup:
    """Returns JSON for a script element: nothing in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def link(path: str, /, **query: object) -> str:
    """Returns the address of a page. Values of ``None`` are left out."""
    supplied = {name: str(value) for name, value in query.items() if value is not None}
    address = BASE + path if path != "/" else "/"
    return f"{address}?{urlencode(supplied, quote_via=quote)}" if supplied else address


# Static files ---------------------------------------------------------------------------------------------------------


def base_url(request: Request) -> str:
    """Returns the broker's address, as the browser uses it."""
    return f"{request.url.scheme}://{request.url.netloc}"


def first_message(request: Request) -> str:
    """Returns a command that publishes a message."""
    body = '<alert id="1"><area>harbour</area><severity>high</severity><text>Storm surge tonight</text></alert>'
    return (
        f"curl {base_url(request)}/messages \\\n  -H 'Authorization: Bearer YOUR-TOKEN' \\\n"
        f"  -H 'Content-Type: application/xml' \\\n  -d {shlex.quote(body)}"
    )


def pull(request: Request, subscriber: str) -> str:
    """Returns a command that pulls the deliveries of a subscriber."""
    return (
        f"curl -G {base_url(request)}/deliveries \\\n  -H 'Authorization: Bearer YOUR-TOKEN' \\\n"
        f"  --data-urlencode {shlex.quote('subscriber=' + subscriber)} -d wait=20"
    )


@cache
def static_file(name: str) -> tuple[bytes, str, str] | None:
    """Returns a static file: its content, its type, and a digest; ``None`` if there is none."""
    if name not in _static_names():
        return None
    content = (files(__package__) / "static" / name).read_bytes()
    kind = mimetypes.types_map.get(name[name.rindex(".") :], "application/octet-stream")
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    return content, kind, hashlib.sha256(content).hexdigest()[:12]


@cache
def _static_names() -> frozenset[str]:
    return frozenset(entry.name for entry in (files(__package__) / "static").iterdir() if entry.is_file())


def static_link(name: str) -> str:
    """Returns the address of a static file, which changes with its content."""
    result = static_file(name)
    if result is None:
        raise InternalError(f"the console has no file {name!r}")
    return f"{BASE}/static/{name}?v={result[2]}"


# Rendering ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("twigcast.broker.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=number,
        size=size,
        moment=moment,
        exact=exact,
        ago=ago,
        duration=duration,
        seen=seen,
        ticked=ticked,
        safe_json=safe_json,
    )
    environment.globals.update(
        link=link, static=static_link, plural=plural, refused_dialect=refused_dialect, delivery_kinds=DELIVERY_KINDS
    )
    return environment


def render(template: str, values: Mapping[str, Any]) -> str:
    """Returns a template as HTML, with everything in ``values`` escaped."""
    return _environment().get_template(template).render(values)


def html(content: str, status: int = 200) -> Response:
    """Returns a page as a response."""
    return Response(content, status, HEADERS, "text/html; charset=utf-8")


def redirect(address: str) -> Response:
    """Redirects the browser to a page."""
    return Response(b"", 303, {**HEADERS, "Location": address})


def download(content: bytes, name: str) -> Response:
    """Returns a file to be saved, whatever its content."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)[:100]
    headers = {**_DOWNLOAD_HEADERS, "Content-Disposition": f'attachment; filename="{plain or "message"}"'}
    return Response(content, 200, headers, "application/octet-stream")
