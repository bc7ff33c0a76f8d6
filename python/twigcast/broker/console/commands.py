"""Command lines that are shown to newcomers."""

from __future__ import annotations

import shlex

from starlette.requests import Request


def base_url(request: Request) -> str:
    """Where the broker is reached, as the browser sees it."""
    return f"{request.url.scheme}://{request.url.netloc}"


def first_message(request: Request) -> str:
    """Publishes a message."""
    body = '<alert id="1"><area>harbour</area><severity>high</severity><text>Storm surge tonight</text></alert>'
    return (
        f"curl {base_url(request)}/messages \\\n  -H 'Authorization: Bearer YOUR-TOKEN' \\\n"
        f"  -H 'Content-Type: application/xml' \\\n  -d {shlex.quote(body)}"
    )


def pull(request: Request, subscriber: str) -> str:
    """Gets the deliveries of a subscriber."""
    return (
        f"curl -G {base_url(request)}/deliveries \\\n  -H 'Authorization: Bearer YOUR-TOKEN' \\\n"
        f"  --data-urlencode {shlex.quote('subscriber=' + subscriber)} -d wait=20"
    )
