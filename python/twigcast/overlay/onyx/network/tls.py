"""Certificates and addresses of brokers.

All brokers of an overlay have certificates of one authority, that of their operator. Both sides show theirs (mutual
TLS), and the name of a broker must be in its certificate. Without certificates, links are restricted to the same
machine unless the operator overrides this.
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

from twigcast.overlay.errors import CertificateError

_PEM: Final = b"-----BEGIN "


class Target(NamedTuple):
    """The address of a broker."""

    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        return f"{'grpcs' if self.secure else 'grpc'}://{self.address}"

    @property
    def address(self) -> str:
        """Host and port as one text."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The PEM files of a broker. They are read for each connection that it makes, so that they can be renewed.

    Methods raise `CertificateError` if a file is unusable.
    """

    certificate: Path  #: The certificate of the broker, with those between it and the authority.
    key: Path  #: The private key of the broker.
    authority: Path  #: The certificates of the authority.

    def for_dialing(self) -> grpc.ChannelCredentials:
        """Returns the credentials for dialing."""
        authority, key, certificate = self._read()
        return grpc.ssl_channel_credentials(authority, key, certificate)

    def for_listening(self) -> grpc.ServerCredentials:
        """Returns the credentials for listening."""
        authority, key, certificate = self._read()
        return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)

    def check(self) -> None:
        """Checks the files before they are needed."""
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
    """Returns the names in the certificate of a broker that dialed, or `None` without certificates."""
    if list(context.get("transport_security_type", ())) != [b"ssl"]:
        return None
    names = [*context.get("x509_subject_alternative_name", ()), *context.get("x509_common_name", ())]
    return frozenset(name.decode("utf-8", "replace") for name in names if name)


def target_of(url: str, *, secure: bool) -> Target:
    """Returns the address in a URL: `grpcs://host:port`, `grpc://host:port` (without certificates), or `host:port`.

    `secure` says whether a URL without a scheme means certificates. Other texts are a `ValueError`.
    """
    scheme, separator, rest = url.strip().rpartition("://")
    if separator and scheme not in ("grpc", "grpcs"):
        raise ValueError(f"{url!r} is no address of a broker; one looks like grpcs://north.example.org:7400")
    host, port = host_and_port(rest.removesuffix("/"))
    return Target(host, port, scheme == "grpcs" if separator else secure)


def host_and_port(text: str, *, free: bool = False) -> tuple[str, int]:
    """Returns host and port of `host:port`, where an IPv6 address is in brackets.

    The port may be 0 only if it may be any `free` one. Other texts are a `ValueError`.
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
    """Returns whether all addresses of a host are loopback addresses."""
    try:
        results = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in results)
