"""The connection of a command to its broker. Its errors tell the user what to do."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from twigcast.cli.client.profiles import BrokerAccess, BrokerFlags, ProfileError, profiles_file, resolve
from twigcast.errors import TwigcastError

if TYPE_CHECKING:
    from twigcast.client import Client, Retries

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]

_TOKENS: Final = "--token-file FILE, TWIGCAST_TOKEN or a profile"


class RefusedByBroker(TwigcastError):
    """A request that a broker did not carry out, with advice for the user."""

    code = "refused-by-broker"


@contextmanager
def connected(broker: BrokerFlags, *, retries: Retries | None = None) -> Iterator[Client]:
    """Opens a client of the broker that the options name. Errors of its requests come with advice.

    Raises:
        ProfileError: The options or the profile cannot be used.
        MissingExtra: The libraries of the client are not installed.
        RefusedByBroker: The broker did not carry out a request.
    """
    access = resolve(broker)
    # Their imports take longer than those of the rest of the command line, and they are optional.
    import httpx2

    from twigcast.broker.errors import BrokerError
    from twigcast.client import Client

    try:
        with Client(access.url, access.token, retries=retries, http=httpx2.Client(verify=_context(access))) as client:
            yield client
    except httpx2.InvalidURL as error:
        raise ProfileError(f"{access.url!r} is no address of a broker: {error}") from None
    except BrokerError as error:
        raise RefusedByBroker(advised(error, access)) from error


def _context(access: BrokerAccess) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if access.ca is None else str(access.ca))
    except OSError as error:
        raise ProfileError(f"{access.ca}: the authorities cannot be read: {error.strerror or error}") from None
    if access.cert is not None:
        try:
            context.load_cert_chain(access.cert, access.cert_key)
        except OSError as error:
            read = str(access.cert) if access.cert_key is None else f"{access.cert} and {access.cert_key}"
            reason = error.strerror or error
            raise ProfileError(f"{read}: the certificate and its key cannot be read: {reason}") from None
    return context


def advised(error: Exception, access: BrokerAccess) -> str:
    """Returns an error in a sentence that says what to do."""
    from twigcast.broker.errors import Forbidden, TooMany, Unauthorized, UnknownObject
    from twigcast.client.errors import UnknownProblem, Unreachable

    if isinstance(error, Unreachable):
        return _unreachable(error, access)
    if isinstance(error, Unauthorized):
        if access.token is None:
            return f"{access.url} needs a token: give one by {_TOKENS} ({profiles_file()})"
        if "certificate" in str(error):
            return f"{error}: name it with --cert FILE"
        what = f"the token in {access.token_origin}"
        return f"{access.url} does not know {what}, or no longer: give another one by {_TOKENS}"
    if isinstance(error, Forbidden):
        return f"{error}: the one in {access.token_origin} does not permit this; give another one by {_TOKENS}"
    if isinstance(error, UnknownObject) and urlsplit(access.url).path:
        return f"{error}: the address of a broker seldom has a path; check --url"
    if isinstance(error, UnknownProblem) and not error.problem:
        return f"{access.url} is no Twigcast broker, or not its whole address: {error}; check --url"
    if isinstance(error, UnknownProblem):
        return f"{access.url} refused it: {error}"
    if isinstance(error, TooMany) and error.retry_after:
        return f"{error}; try again in {error.retry_after:g} seconds"
    return str(error)


def _unreachable(error: Exception, access: BrokerAccess) -> str:
    """Returns why a broker did not answer, by the error of the system below it."""
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        reason = next(cause.verify_message for cause in causes if isinstance(cause, ssl.SSLCertVerificationError))
        return f"the certificate of {access.url} is not trusted ({reason}): name its authority with --ca FILE"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return f"{access.url} does not speak TLS as it should ({causes[-1]}): is it http:// instead of https://?"
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return f"there is no host of the name in {access.url}: check --url, TWIGCAST_URL or the profile"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return (
            f"nothing listens at {access.url}: start a broker there with twigcast serve, "
            "or name another one with --url, TWIGCAST_URL or a profile"
        )
    return f"{error}; check the address and whether the broker runs, and try again"


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
