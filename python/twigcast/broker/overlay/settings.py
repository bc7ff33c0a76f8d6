"""The settings of the overlay side of a broker, and their checks."""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from twigcast.broker.config import ConfigError, Settings
from twigcast.overlay.errors import CertificateError, ImpossibleSetting
from twigcast.overlay.onyx.network.greeting import NAME_BYTES_MAX
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.network.tls import Certificates, Target, host_and_port, is_loopback, target_of
from twigcast.overlay.onyx.registry.catalogue import Location, Placement
from twigcast.overlay.onyx.wire.exchange import FormPreferences

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class OverlaySettings:
    """The settings of the overlay."""

    name: str | None
    """Name of the broker; ``None``: the stored one, at first the host name."""
    listen: tuple[str, int] | None
    where: str
    """Address for others; empty: that on which the broker listens."""
    join: tuple[Target, ...]
    certificates: Certificates | None
    network: NetworkSettings
    retention_factor: float
    url: str = ""
    """URL for clients; empty: unknown."""
    location: Location = (0.0, 0.0)
    capacity: float = 0.0
    """Bytes per second that it takes from sources; 0: unknown."""
    holders: tuple[str, ...] = ()
    """Names of the brokers that hold the registry; empty: other brokers name them, or there is no registry."""
    placement: Placement = Placement.BOTH
    reduces: bool = False
    """Whether links carry only the parts of messages that are used behind them."""
    forms: FormPreferences = FormPreferences()  # noqa: RUF009 - never changed
    """The forms of messages on links."""

    @classmethod
    def of(cls, settings: Settings) -> OverlaySettings | None:
        """Returns the settings of the overlay, ``None`` if the broker is in none; raises ConfigError."""
        if not settings.join and settings.overlay_listen is None:
            return None
        certificates = _certificates(settings)
        listen = _usable("overlay_listen", _listen, settings.overlay_listen)
        join = tuple(_target(url, secure=certificates is not None) for url in settings.join)
        _require_certificates(settings, listen, join, certificates)
        return cls(
            _usable("overlay_identity", _name, settings.overlay_identity),
            listen,
            settings.overlay_where or "",
            join,
            certificates,
            NetworkSettings(queue_bytes_max=settings.overlay_queue_bytes_max),
            settings.overlay_retention_factor,
            url=_url(settings),
            location=_usable("overlay_place", _location, settings.overlay_place),
            capacity=settings.overlay_capacity,
            holders=_usable("overlay_registry", _holders, settings.overlay_registry),
            placement=Placement(settings.overlay_placement),
            reduces=settings.overlay_reduce,
            forms=_usable("overlay_forms", FormPreferences.parse, settings.overlay_forms),
        )


def host_name() -> str:
    """Returns the default name of a broker."""
    return socket.gethostname() or "broker"


def _usable(setting: str, read: Callable[[V], T], value: V) -> T:
    """Returns what ``read`` makes of a setting; raises ConfigError with its name."""
    try:
        return read(value)
    except (ValueError, ImpossibleSetting) as error:
        raise ConfigError(f"the setting {setting!r} cannot be used: {error}") from None


def _name(value: str | None) -> str | None:
    if value is not None and (
        not value.isprintable() or " " in value or not 0 < len(value.encode("utf-8", "replace")) <= NAME_BYTES_MAX
    ):
        raise ValueError(f"{value!r} is no name without spaces")
    return value


def _holders(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError("it names a broker twice")
    for name in names:
        if not name.isprintable() or " " in name:
            raise ValueError(f"{name!r} is no name of a broker")
    return tuple(sorted(names))


def _location(value: str) -> Location:
    try:
        x, y = (float(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"{value!r} is not of the form X,Y") from None
    if not math.isfinite(x) or not math.isfinite(y):
        raise ValueError(f"{value!r} is no place")
    return x, y


def _url(settings: Settings) -> str:
    """Returns the URL for clients, if the settings determine it."""
    if settings.public_url is not None:
        return settings.public_url
    if not settings.port or is_unspecified(settings.host):
        return ""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def is_unspecified(host: str) -> bool:
    """Returns whether a host stands for all addresses of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _certificates(settings: Settings) -> Certificates | None:
    files = settings.overlay_cert, settings.overlay_key, settings.overlay_ca
    if not any(files):
        return None
    certificate, key, authority = files
    if not (certificate and key and authority):
        raise ConfigError("the settings 'overlay_cert', 'overlay_key' and 'overlay_ca' are to be given together")
    result = Certificates(Path(certificate), Path(key), Path(authority))
    try:
        result.check()
    except CertificateError as error:
        raise ConfigError(str(error)) from None
    return result


def _listen(value: str | None) -> tuple[str, int] | None:
    return None if value is None else host_and_port(value, free=True)


def _target(url: str, *, secure: bool) -> Target:
    target = _usable("join", partial(target_of, secure=secure), url)
    if target.secure and not secure:
        raise ConfigError(f"{url} wants certificates: give 'overlay_cert', 'overlay_key' and 'overlay_ca'")
    return target


def _require_certificates(
    settings: Settings, listen: tuple[str, int] | None, join: tuple[Target, ...], certificates: Certificates | None
) -> None:
    """Refuses links to other machines without certificates."""
    if settings.overlay_insecure:
        return
    open_to = [] if listen is None or certificates is not None else [listen[0]]
    open_to += [target.host for target in join if not target.secure]
    for host in open_to:
        if not is_loopback(host):
            raise ConfigError(
                f"links over {host} need certificates: give 'overlay_cert', 'overlay_key' and "
                "'overlay_ca', or set 'overlay_insecure'"
            )
