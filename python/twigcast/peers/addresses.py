"""The addresses of peers: the number of a node holds its host and port, so that whoever hears of it can dial it."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from twigcast.overlay.core import Address
from twigcast.overlay.errors import NetworkError

_PORT_BITS: Final = 16
_IPV6_MARK: Final = 1 << (128 + _PORT_BITS)


def address_of(host: str, port: int) -> Address:
    """Returns the number of a node that listens on a host, which is looked up if it is a name, and a port.

    Raises:
        NetworkError: The name has no address.
    """
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NetworkError(f"{host} has no address: {error.strerror}") from None
        ip = ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])
    number = int(ip) << _PORT_BITS | port
    return number if ip.version == 4 else number | _IPV6_MARK


def host_and_port_of(address: Address) -> tuple[str, int]:
    """Returns the host and port of a node.

    Raises:
        NetworkError: The number is that of no node.
    """
    port, number = address % (1 << _PORT_BITS), address >> _PORT_BITS
    try:
        if address >= _IPV6_MARK:
            ip: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.IPv6Address(number - (1 << 128))
        else:
            ip = ipaddress.IPv4Address(number)
    except ipaddress.AddressValueError:
        raise NetworkError(f"{address} is the address of no node") from None
    if not port:
        raise NetworkError(f"{address} is the address of no node: it has no port")
    return str(ip), port


def where_of(address: Address) -> str:
    """Returns host and port of a node as one text."""
    host, port = host_and_port_of(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
