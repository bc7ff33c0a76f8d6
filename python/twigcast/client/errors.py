"""Errors from problem documents of the broker: the ones that it raised itself, if the client has their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twigcast.broker import errors as broker_errors
from twigcast.broker.errors import BrokerError, LimitReached, TooMany
from twigcast.errors import (
    MalformedMessage,
    QueryError,
    QuerySyntaxError,
    TwigcastError,
    UndeclaredPrefix,
    UnreadableMessage,
    UnsupportedQuery,
)


class Unreachable(BrokerError):
    """The broker did not answer. It may or may not have carried out the request."""

    code = "unreachable"


class UnknownProblem(BrokerError):
    """The broker answered with a problem that this client does not know.

    Args:
        reason: What is wrong.
        problem: The whole document.
    """

    def __init__(self, reason: str, problem: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.problem = problem


_BROKER: Final = {
    error.code: error
    for error in vars(broker_errors).values()
    if isinstance(error, type) and issubclass(error, BrokerError) and error not in (LimitReached, TooMany)
}
_QUERY: Final[Mapping[str, type[QueryError]]] = {
    error.code: error for error in (QueryError, QuerySyntaxError, UnsupportedQuery, UndeclaredPrefix)
}


def error_of_problem(problem: Mapping[str, Any], query: str | None, retry_after: float | None) -> TwigcastError:
    """Returns the error that a problem document describes.

    Args:
        problem: The document.
        query: The query that was sent, if there was one.
        retry_after: Seconds after which the broker allows a retry.
    """
    code, reason = str(problem.get("code", "")), str(problem.get("detail", "the request failed"))
    if code == TooMany.code:
        return TooMany(reason, retry_after)
    if code == LimitReached.code:
        return LimitReached(reason, str(problem.get("limit", "")), int(problem.get("value", 0)))
    if code in _QUERY:
        return _QUERY[code](query or "", int(problem.get("column", 1)), reason, problem.get("expected", ()))
    message = _message_error(code)
    if message is not None:
        return message(problem, reason)
    if code in _BROKER:
        return _BROKER[code](reason)
    return UnknownProblem(reason, problem)


def _message_error(code: str) -> Callable[[Mapping[str, Any], str], TwigcastError] | None:
    if code == MalformedMessage.code:
        return lambda problem, reason: MalformedMessage(problem.get("line") or 1, problem.get("column") or 1, reason)
    if code.startswith("message"):
        return lambda _, reason: UnreadableMessage(reason)
    return None
