"""The host names of a broker, which protect it from pages of other sites.

A page in a browser may send a request to its own name, and let that name resolve to this machine afterwards (*DNS
rebinding*); the browser then takes the broker for the page's own server. Such a request has the name of the page, so
names that are not the broker's are refused. Addresses are no names: nobody can let them resolve elsewhere.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from twigcast.broker.config import Settings


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that requests may use."""

    names: frozenset[str]
    """Names in lower case."""
    any_name: bool = False
    any_address: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Hosts:
        """Returns those of the setting ``trusted_hosts``, or the default."""
        if settings.trusted_hosts:
            chosen = frozenset(host.lower() for host in settings.trusted_hosts)
            return cls(chosen, any_name="*" in chosen)
        names = {"localhost", settings.host.lower()}
        if settings.public_url:
            names.add((urlsplit(settings.public_url).hostname or "").lower())
        if not _is_loopback(settings.host):
            own = socket.gethostname().lower()
            names |= {own, own.partition(".")[0]}
        return cls(frozenset(names - {""}), any_address=True)

    def permit(self, host: str) -> bool:
        """Returns whether a request may use this host, in lower case and without a port."""
        return self.any_name or host in self.names or (self.any_address and _is_address(host))


def _is_address(host: str) -> bool:
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        return False
    return is_bracketed == (address.version == 6)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
