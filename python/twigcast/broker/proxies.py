"""Reads what a proxy in front says of clients: their addresses, and the certificates that they have shown to it.

The broker speaks plain HTTP, so a proxy ends TLS and checks certificates. It tells the certificate in a field of the
head (RFC 9440), which is believed from trusted proxies only. A token may be bound to certificates, as in RFC 8705: then
it opens nothing without one of them, so whoever finds the token alone has nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_log = logging.getLogger("twigcast.broker")

CERTIFICATE: Final = "twigcast.certificate"
"""Key in the scope of a request: the fingerprint of the certificate that its client has shown to a trusted proxy."""

_ARMOUR: Final = re.compile(rb"-----(?:BEGIN|END) CERTIFICATE-----|\s")
_SEQUENCE: Final = 0x30
"""The first byte of each certificate in DER."""


def fingerprint(field: bytes) -> str | None:
    """Returns the SHA-256 fingerprint, in hexadecimal, of the certificate in a field; ``None`` if there is none.

    Proxies write it as bytes of RFC 9440 (``:MIIB...:``), as base64 alone, or as PEM in percent-encoding.
    """
    text = _ARMOUR.sub(b"", unquote_to_bytes(field)).strip(b":")
    try:
        der = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return hashlib.sha256(der).hexdigest() if der and der[0] == _SEQUENCE else None


class ProxyFields(ProxyHeadersMiddleware):
    """An application that learns from trusted proxies who its clients are."""

    def __init__(self, app: ASGIApp, trusted: str, certificate_header: str | None) -> None:
        super().__init__(cast("Any", app), trusted)
        self._field = certificate_header.lower().encode("ascii") if certificate_header else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]
        """Notes the certificate of a request, and the address of its client, and passes it on."""
        if self._field is not None and scope["type"] in {"http", "websocket"}:
            scope[CERTIFICATE] = self._certificate(scope)
        await super().__call__(cast("Any", scope), cast("Any", receive), cast("Any", send))

    def _certificate(self, scope: Scope) -> str | None:
        client = scope.get("client")
        if client is None or client[0] not in self.trusted_hosts:
            return None
        values = [value for name, value in scope["headers"] if name == self._field]
        if not any(values):
            return None
        found = fingerprint(values[0]) if len(values) == 1 else None
        if found is None:
            _log.debug("a proxy sent %s fields %r, and not one certificate", len(values), self._field)
        return found
