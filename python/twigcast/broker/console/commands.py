"""Command lines that are shown to newcomers."""

from __future__ import annotations

import shlex

from starlette.requests import Request


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
