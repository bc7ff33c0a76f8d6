"""Certificates: who may take part, and when none are needed.

All brokers of an overlay have certificates of one authority, the operator's own. Both sides show theirs (mutual TLS),
and a broker's name must be among those that its certificate holds. Without certificates a broker talks to its own
machine only, unless its operator insists.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import grpc

from twigcast.overlay.onyx.network.errors import CertificateError

_PEM: Final = b"-----BEGIN "


class Target(NamedTuple):
    """A broker to be reached."""

    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        return f"{'grpcs' if self.secure else 'grpc'}://{self.address}"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files of a broker, in PEM. They are read anew for each connection that it makes, so that they can be renewed."""

    certificate: Path
    """Its certificate, and those between it and the authority."""
    key: Path
    """The private key."""
    authority: Path
    """The certificates of the authority."""

    def for_dialing(self) -> grpc.ChannelCredentials:
        """What is shown to, and asked of, a broker that is dialed.

        Raises:
            CertificateError: A file cannot be used.
        """
        authority, key, certificate = self._read()
        return grpc.ssl_channel_credentials(authority, key, certificate)

    def for_listening(self) -> grpc.ServerCredentials:
        """The same for those that dial.

        Raises:
            CertificateError: A file cannot be used.
        """
        authority, key, certificate = self._read()
        return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)

    def check(self) -> None:
        """See whether the files can be used, before they are needed.

        Raises:
            CertificateError: One cannot.
        """
        self._read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{self.certificate} and {self.key} do not fit together: {error}") from None
        try:
            context.load_verify_locations(self.authority)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{self.authority}: it holds no certificates: {error}") from None

    def _read(self) -> tuple[bytes, bytes, bytes]:
        return _pem(self.authority), _pem(self.key), _pem(self.certificate)


def _pem(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: it cannot be read: {error.strerror}") from None
    if _PEM not in content:
        raise CertificateError(f"{path}: it holds no PEM")
    return content


def proven_names(context: Mapping[str, Iterable[bytes]]) -> frozenset[str] | None:
    """The names in the certificate of a broker that dialed; `None`: there are no certificates.

    Args:
        context: What gRPC says of the connection.
    """
    if list(context.get("transport_security_type", ())) != [b"ssl"]:
        return None
    names = [*context.get("x509_subject_alternative_name", ()), *context.get("x509_common_name", ())]
    return frozenset(name.decode("utf-8", "replace") for name in names if name)


def target_of(url: str, *, secure: bool) -> Target:
    """The broker that a URL names: `grpcs://host:port`, `grpc://host:port` without certificates, or `host:port`.

    Args:
        url: It.
        secure: Whether there are certificates: what a URL without a scheme means.

    Raises:
        ValueError: It is no such URL.
    """
    scheme, separator, rest = url.strip().rpartition("://")
    if separator and scheme not in ("grpc", "grpcs"):
        raise ValueError(f"{url!r} is no address of a broker; one looks like grpcs://north.example.org:7400")
    host, port = host_and_port(rest.removesuffix("/"))
    return Target(host, port, scheme == "grpcs" if separator else secure)


def host_and_port(text: str, *, free: bool = False) -> tuple[str, int]:
    """Host and port of `host:port`, an IPv6 address in brackets.

    Args:
        text: It.
        free: Whether the port may be 0.

    Raises:
        ValueError: It is none.
    """
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not colon
        or not host
        or not port.isdecimal()
        or not (0 if free else 1) <= int(port) < 65_536
        or set("/@?# ") & set(host)
    ):
        raise ValueError(f"{text!r} is no host with a port, such as north.example.org:7400")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are this machine's own and no other's."""
    try:
        results = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in results)
