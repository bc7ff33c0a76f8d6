"""What both clients do around a request: its parts, what its answer means, and when to try again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2

from twigcast.client.calls import ApiRequest
from twigcast.client.errors import UnknownProblem, Unreachable, of_problem
from twigcast.errors import TwigcastError

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 45.0
"""Without a sign of life for so long (three are due in it) a stream is taken for dead."""

_UNAVAILABLE: Final = 503
_TOO_MANY: Final = 429
_WAIT_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when a request that may be repeated is tried again.

    Args:
        attempts: In all, the first included.
        first_wait: Seconds before the second attempt, at most; doubled before each further one. Chance shortens waits.
    """

    attempts: int = 4
    first_wait: float = 0.2

    def wait(self, failed: int, asked: float | None) -> float:
        """Seconds to wait after ``failed`` attempts; at least what the broker asked for."""
        longest = min(self.first_wait * 2 ** (failed - 1), _WAIT_MAX)
        return max(random.uniform(longest / 2, longest), min(asked or 0.0, _WAIT_MAX))  # noqa: S311 - no secret


def arguments(call: ApiRequest[Any]) -> dict[str, Any]:
    """What httpx takes for a request."""
    results: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "params": dict(call.query),
        "timeout": httpx2.Timeout(ANSWER_SECONDS + call.seconds, connect=CONNECT_SECONDS),
    }
    if call.content is not None:
        results["content"] = call.content
        results["headers"] = {"Content-Type": call.content_type or ""}
    elif call.body is not None:
        results["json"] = call.body
    return results


def outcome(call: ApiRequest[T], response: httpx2.Response) -> T:
    """What an answer means.

    Raises:
        TwigcastError: It is a problem.
    """
    if response.is_success:
        if call.raw:
            return call.read(response.content)
        return call.read(response.json() if response.content else None)
    raise problem(response, call.asked)


def problem(response: httpx2.Response, asked: str | None = None) -> TwigcastError:
    """The error that an answer tells of."""
    try:
        result = response.json()
    except ValueError:
        result = None
    if not isinstance(result, Mapping) or "code" not in result:
        # Something between client and broker answered.
        return UnknownProblem(f"the answer was {response.status_code} {response.reason_phrase}", {})
    return of_problem(result, asked, retry_after(response))


def retry_after(response: httpx2.Response) -> float | None:
    """Seconds that the answer asks to wait."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def is_passing(call: ApiRequest[Any], response: httpx2.Response) -> bool:
    """Whether trying again may help. What is over a rate was certainly not done."""
    return response.status_code == _TOO_MANY or (call.repeatable and response.status_code == _UNAVAILABLE)


def unreachable(base: str, error: httpx2.TransportError) -> Unreachable:
    """The error for no answer."""
    return Unreachable(f"{base} did not answer: {str(error) or type(error).__name__}")


def headers(token: str | None) -> dict[str, str]:
    """Of all requests."""
    return {"Authorization": f"Bearer {token}"} if token else {}
