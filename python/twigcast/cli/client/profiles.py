"""Profiles: which broker a command talks to, and with which token.

A profile is a table in ``profiles.toml`` in the user's configuration folder. A token is sent only to the address that
it belongs to: that of a profile is left out where another address is given.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from twigcast.cli.common import complain
from twigcast.cli.option_groups import OptionGroup
from twigcast.errors import TwigcastError

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_NAME: Final = "default"
_MEMBERS: Final = ("url", "token", "token_file", "ca", "cert", "cert_key")


class ProfileError(TwigcastError):
    """A profile, a token or an address that cannot be used."""

    code = "profile"


@dataclass(frozen=True, slots=True)
class BrokerFlags(OptionGroup):
    """The options that choose a broker, as they were given."""

    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="The broker, or two of a pair; by default TWIGCAST_URL, or the profile's."
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="The file with the token; by default TWIGCAST_TOKEN, or the profile's."
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="The profile; by default TWIGCAST_PROFILE, or default."),
    ] = None
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="The authorities of the broker's certificate, as PEM.")
    ] = None
    cert: Annotated[
        Path | None, typer.Option("--cert", metavar="FILE", help="Your own certificate, as PEM, perhaps with its key.")
    ] = None
    cert_key: Annotated[
        Path | None, typer.Option("--cert-key", metavar="FILE", help="The key of your own certificate, as PEM.")
    ] = None


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """A broker to talk to, and with what."""

    url: str
    token: str | None
    token_origin: str
    """Where the token is from, for errors."""
    ca: Path | None
    """The authorities of the broker's certificate; ``None`` for those of the system."""
    cert: Path | None
    """The user's own certificate."""
    cert_key: Path | None
    """The key of that certificate; ``None`` if it is in the same file."""


def profiles_file() -> Path:
    """Returns the path of the profiles: ``~/.config/twigcast/profiles.toml``, or what is usual on other systems."""
    return Path(typer.get_app_dir("twigcast")) / "profiles.toml"


def resolve(flags: BrokerFlags) -> BrokerAccess:
    """Returns the broker that options, environment and profiles name.

    Options override a profile that is named by ``--profile``, which overrides the environment, which overrides the
    profile of ``TWIGCAST_PROFILE``, by default ``default``.

    Raises:
        ProfileError: The profile does not exist, or what is in it cannot be used; or a token cannot be read.
    """
    profile, is_named = _profile(flags.profile)
    in_environment = os.environ.get("TWIGCAST_URL") or None
    own = profile.get("url")
    candidates = (own, in_environment) if is_named else (in_environment, own)
    url = _checked_url(flags.url or candidates[0] or candidates[1] or DEFAULT_URL)
    belongs = own is None or _checked_url(own) == url
    token, origin = _token(flags, profile, belongs=belongs, is_named=is_named)
    ca = flags.ca or (_path(profile, "ca") if belongs else None)
    cert, key = flags.cert, flags.cert_key
    if cert is None and belongs:
        cert, key = _path(profile, "cert"), key or _path(profile, "cert_key")
    if key is not None and cert is None:
        raise ProfileError("a key needs its certificate: name it with --cert FILE")
    return BrokerAccess(url, token, origin, ca, cert, key)


def _profile(name: str | None) -> tuple[Mapping[str, Any], bool]:
    """Returns the members of the profile in use, and whether an option names it."""
    asked = name or os.environ.get("TWIGCAST_PROFILE") or None
    path = profiles_file()
    profiles = _read(path)
    profile = profiles.get(asked or DEFAULT_NAME)
    if profile is None and asked is not None:
        known = ", ".join(profiles) or "none"
        raise ProfileError(f"there is no profile {asked!r} in {path}; those that there are: {known}")
    if profile is not None and not isinstance(profile, dict):
        raise ProfileError(f"{path}: a profile is a table: write [{DEFAULT_NAME}] above its url and token")
    for member, value in (profile or {}).items():
        if member not in _MEMBERS or not isinstance(value, str):
            raise ProfileError(f"{path}: {member!r} cannot be in a profile; it has texts for {', '.join(_MEMBERS)}")
    if profile and "token" in profile and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        complain(f"warning: {path} holds a token and others can read it: chmod 600 {path}")
    return profile or {}, name is not None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ProfileError(f"{path}: it cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: it is no TOML: {error}") from None


def _token(flags: BrokerFlags, profile: Mapping[str, Any], *, belongs: bool, is_named: bool) -> tuple[str | None, str]:
    """Returns the token, if there is one, and where it is from."""
    in_environment = os.environ.get("TWIGCAST_TOKEN") or None
    in_profile = "token" in profile or "token_file" in profile
    if flags.token_file is not None:
        return _from_file(flags.token_file), str(flags.token_file)
    if in_environment is not None and not (is_named and in_profile):
        return _checked_token(in_environment, "TWIGCAST_TOKEN"), "TWIGCAST_TOKEN"
    if not belongs:
        return None, ""
    path = _path(profile, "token_file")
    if "token" in profile:
        origin = str(profiles_file())
        return _checked_token(profile["token"], origin), origin
    return (None, "") if path is None else (_from_file(path), str(path))


def _path(profile: Mapping[str, Any], name: str) -> Path | None:
    """Returns a path in a profile, which is relative to the folder of the profiles."""
    return profiles_file().parent / Path(profile[name]).expanduser() if name in profile else None


def _from_file(path: Path) -> str:
    try:
        return _checked_token(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ProfileError(f"{path}: the token cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProfileError(f"{path}: there is no token in it, which is one line of ASCII") from None


def _checked_token(text: str, origin: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ProfileError(f"{origin}: there is no token in it, which is one line of ASCII such as tc_...")
    return token


def _checked_url(url: str) -> str:
    """Returns an address, or those of a pair separated by commas, in one spelling; raises ProfileError."""
    addresses = [address.strip().rstrip("/") for address in url.split(",")]
    for address in addresses:
        if not address.startswith(("http://", "https://")):
            raise ProfileError(
                f"{address!r} is no address of a broker: write it with http:// or https://, as {DEFAULT_URL}"
            )
    return ",".join(addresses)
