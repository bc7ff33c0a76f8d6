"""The exchange of requests and answers: the parts of a request, the meaning of its answer, and the retries."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import httpx2

from twigcast.client.calls import ApiRequest, BrokerApi
from twigcast.client.errors import UnknownProblem, Unreachable, error_of_problem
from twigcast.errors import TwigcastError

T = TypeVar("T")

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
_SILENCE_SECONDS: Final = 45.0
"""The silence after which a stream counts as broken. The broker sends three signs of life in this time."""

_UNAVAILABLE: Final = 503
_TOO_MANY: Final = 429
_WAIT_SECONDS_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Retries:
    """The number and the times of the attempts at a request that may be repeated.

    Args:
        attempts: The number of attempts, including the first one.
        first_wait: The most seconds before the second attempt, doubled before each further one. Waits are randomised.
    """

    attempts: int = 4
    first_wait: float = 0.2

    def wait(self, failed: int, asked: float | None) -> float:
        """Returns the seconds to wait after ``failed`` attempts: at least what the broker asked for."""
        longest = min(self.first_wait * 2 ** (failed - 1), _WAIT_SECONDS_MAX)
        return max(random.uniform(longest / 2, longest), min(asked or 0.0, _WAIT_SECONDS_MAX))  # noqa: S311 - no secret


class Attempts(Generic[T]):
    """The attempts at one request."""

    def __init__(self, request: ApiRequest[T], retries: Retries) -> None:
        self._request = request
        self._retries = retries
        self._failed = 0
        self.arguments: dict[str, Any] = {
            "method": request.method,
            "url": request.broker_url + request.path,
            "params": dict(request.params),
            "headers": dict(request.headers),
            "timeout": httpx2.Timeout(_ANSWER_SECONDS + request.seconds, connect=_CONNECT_SECONDS),
        }
        """The arguments for httpx."""
        if request.content is not None:
            self.arguments["content"] = request.content
        elif request.body is not None:
            self.arguments["json"] = request.body

    def is_final(self, response: httpx2.Response) -> bool:
        """Returns whether another attempt cannot change the response."""
        if response.status_code == _TOO_MANY:
            # A request over the rate was certainly not carried out.
            return False
        return not (self._request.is_repeatable and response.status_code == _UNAVAILABLE)

    def wait_after(self, response: httpx2.Response) -> float:
        """Returns the seconds until the next attempt after a response that is not final.

        Raises:
            TwigcastError: No attempt is left.
        """
        return self._wait(problem(response, self._request.query), _retry_after(response))

    def wait_after_failure(self, failure: httpx2.TransportError) -> float:
        """Returns the seconds until the next attempt after one without an answer.

        Raises:
            Unreachable: No attempt is left, or the request may have been carried out and is not repeatable.
        """
        error = unreachable(self._request.broker_url, failure)
        if not (self._request.is_repeatable or isinstance(failure, httpx2.ConnectError)):
            raise error from failure
        return self._wait(error, None)

    def _wait(self, error: TwigcastError, asked: float | None) -> float:
        self._failed += 1
        if self._failed >= self._retries.attempts:
            raise error
        return self._retries.wait(self._failed, asked)


def stream_arguments(api: BrokerApi, subscriber: str, last: str | None, *, automatic: bool) -> dict[str, Any]:
    """Returns the arguments for httpx of a stream that continues after the delivery ``last``."""
    return {
        "method": "GET",
        "url": f"{api.url}/deliveries/stream",
        "params": {"subscriber": subscriber, "ack": "auto" if automatic else "explicit"},
        "headers": {**api.headers, **({"Last-Event-ID": last} if last else {})},
        "timeout": httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
    }


def read_answer(request: ApiRequest[T], response: httpx2.Response) -> T:
    """Reads the answer to a request.

    Raises:
        TwigcastError: It is a problem.
    """
    if not response.is_success:
        raise problem(response, request.query)
    if request.raw:
        return request.read(response.content)
    return request.read(response.json() if response.content else None)


def problem(response: httpx2.Response, query: str | None = None) -> TwigcastError:
    """Returns the error that a response describes. ``query`` is the query of the request."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, Mapping) or "code" not in document:
        # Something between client and broker answered.
        return UnknownProblem(f"the answer was {response.status_code} {response.reason_phrase}", {})
    return error_of_problem(document, query, _retry_after(response))


def _retry_after(response: httpx2.Response) -> float | None:
    """Returns the seconds that a response asks the client to wait."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def unreachable(broker_url: str, failure: httpx2.TransportError) -> Unreachable:
    """Returns the error for a request without an answer."""
    return Unreachable(f"{broker_url} did not answer: {str(failure) or type(failure).__name__}")
