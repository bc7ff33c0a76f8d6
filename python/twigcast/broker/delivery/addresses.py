"""The addresses that the broker may contact if another party chose the URL.

A webhook, a WebSub callback or a feed is a URL by a user of the broker; the broker must not become a way into
its own network (server-side request forgery). A URL is refused if it is not plain HTTP(S), carries
credentials, spells an address in a form that resolvers understand differently, or leads to an address that is not
public. Addresses that contain an IPv4 address (mapped, NAT64, 6to4) are judged by that one.

:meth:`UrlPolicy.addresses` resolves and judges in one step, and the connection is made to its result
(:mod:`twigcast.broker.delivery.http_client`): no second look-up could give another answer in between.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from twigcast.broker.errors import UrlRefused

_log = logging.getLogger(__name__)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Resolves host and port to addresses as text. Raises OSError if there are none."""

URL_CHARACTERS_MAX: Final = 2_000

_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\]")
_HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")

_NOT_PUBLIC: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(network)
    for network in (
        "100.64.0.0/10",  # carrier-grade NAT
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays
        "64:ff9b:1::/48",  # NAT64 of a local network
        "100::/64",  # discarded
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fec0::/10",  # site-local, as it once was
    )
)

_DNS_THREADS: Final = 8
_DNS_SECONDS: Final = 10.0


class UnresolvedHost(UrlRefused):
    """A host whose name has no address, at least at the moment."""

    code = "url-host-not-found"


def parse_url(text: str) -> SplitResult:
    """Returns a URL in its parts, the host in ASCII and lower case; raises UrlRefused if it is never contacted."""
    if len(text) > URL_CHARACTERS_MAX:
        raise UrlRefused(f"the URL is longer than {URL_CHARACTERS_MAX:,} characters")
    if _NOT_IN_A_URL.search(text):
        raise UrlRefused("the URL contains white space, a control character or a backslash; percent-encode it")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UrlRefused(f"this is no URL: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise UrlRefused("only http:// and https:// URLs are used")
    if "@" in parts.netloc:
        raise UrlRefused("the URL carries credentials; put a secret into its path or use signatures")
    if port == 0:
        raise UrlRefused("there is no port 0")
    host = _ascii_host(parts.hostname or "")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != (443 if parts.scheme == "https" else 80):
        netloc += f":{port}"
    if not parts.path.isascii() or not parts.query.isascii():
        raise UrlRefused("the URL contains characters beyond ASCII; percent-encode them")
    return SplitResult(parts.scheme, netloc, parts.path or "/", parts.query, "")


def origin_of(url: str) -> str:
    """Returns scheme, host and port of a URL, by which requests to one server are counted together."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _ascii_host(host: str) -> str:
    if not host:
        raise UrlRefused("the URL names no host")
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            address = None
        if address is None or address.scope_id is not None:
            raise UrlRefused(f"{host!r} is no IPv6 address without a zone")
        return str(address)
    try:
        name = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise UrlRefused(f"{host!r} is no host name") from None
    if not _HOST_NAME.fullmatch(name):
        raise UrlRefused(f"{host!r} is no host name")
    if _NUMBER.fullmatch(name.rstrip(".").rpartition(".")[2]):
        # 2130706433, 0x7f.1 and 0177.0.0.1 are addresses to some resolvers; only the common form is accepted here.
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise UrlRefused(f"{host!r} spells an address in an unusual form; write it as 192.0.2.1") from None
    return name


def is_public(address: Address) -> bool:
    """Returns whether an address belongs to one host on the public internet."""
    inner = _inner_address(address)
    if inner is not None:
        return is_public(inner)
    if address.is_multicast or address.is_reserved or address.is_unspecified or not address.is_global:
        return False
    return not any(address in network for network in _NOT_PUBLIC if network.version == address.version)


def _inner_address(address: Address) -> ipaddress.IPv4Address | None:
    """Returns the IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or address in _IPV4_COMPATIBLE:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """A policy of permitted addresses: all, or public ones, and those of some host names and networks."""

    allow_private: bool = False
    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    resolver: Resolver | None = None

    @classmethod
    def of(cls, *, allow_private: bool = False, permitted: Iterable[str] = ()) -> UrlPolicy:
        """Returns the policy that permits some hosts, addresses and networks (``10.1.0.0/16``) beside public ones."""
        hosts: set[str] = set()
        networks: list[Network] = []
        for entry in permitted:
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                hosts.add(_ascii_host(entry))
        return cls(allow_private, frozenset(hosts), tuple(networks))

    async def check(self, url: str) -> str:
        """Returns a permitted URL in the form in which it is used; raises UrlRefused."""
        parts = parse_url(url)
        host = parts.hostname or ""
        if host not in self.hosts:
            await self.addresses(host, parts.port or (443 if parts.scheme == "https" else 80))
        return urlunsplit(parts)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Returns the addresses of a host; raises UrlRefused if one of them is not permitted, or there is none."""
        try:
            async with asyncio.timeout(_DNS_SECONDS):
                texts = await (self.resolver or resolve)(host, port)
            results = [ipaddress.ip_address(text) for text in texts]
        except TimeoutError:
            raise UnresolvedHost(f"looking up {host} took longer than {_DNS_SECONDS:.0f} s") from None
        except (OSError, ValueError, UnicodeError):
            raise UnresolvedHost(f"the host {host} does not resolve") from None
        if not results:
            raise UnresolvedHost(f"the host {host} does not resolve")
        for address in results:
            if not self._permits(host, address):
                raise _not_permitted(host, str(address))
        return [str(address) for address in results]

    def _permits(self, host: str, address: Address) -> bool:
        if self.allow_private or host in self.hosts or is_public(address):
            return True
        inner = _inner_address(address) or address
        return any(
            candidate in network
            for candidate in (address, inner)
            for network in self.networks
            if network.version == candidate.version
        )


def _not_permitted(host: str, address: str) -> UrlRefused:
    """Returns the error for an address that is not public. Only operators learn the address behind a name."""
    if address == host:
        return UrlRefused(f"{host} is no public address; an operator can permit it")
    _log.info("a URL was refused: %s leads to %s, which is no public address", host, address)
    return UrlRefused(f"{host} leads to no public address; an operator can permit it", address)


_dns_threads: Final = ThreadPoolExecutor(_DNS_THREADS, thread_name_prefix="dns")
"""Look-ups that hang must not occupy the threads that read the store."""


async def resolve(host: str, port: int) -> list[str]:
    """Resolves a host with the system's resolver."""
    result = await asyncio.get_running_loop().run_in_executor(_dns_threads, _look_up, host, port)
    return list(dict.fromkeys(result))


def _look_up(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A zone (fe80::1%eth0) is no part of the address that is judged.
    return [str(info[4][0]).partition("%")[0] for info in infos]
