"""Errors from problem documents of the broker: the ones that it raised itself, if the client has their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twigcast.broker import errors as broker_errors
from twigcast.broker.errors import BrokerError, IdReused, LimitReached, Standby, TooMany, UnknownDelivery
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
    """The broker answered with a problem that this client does not know, as ``problem`` holds it."""

    def __init__(self, reason: str, problem: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.problem = problem


_WITH_DETAILS: Final = (IdReused, LimitReached, Standby, TooMany, UnknownDelivery)
_BROKER: Final = {
    error.code: error
    for error in vars(broker_errors).values()
    if isinstance(error, type) and issubclass(error, BrokerError) and error not in _WITH_DETAILS
}
_QUERY: Final[Mapping[str, type[QueryError]]] = {
    error.code: error for error in (QueryError, QuerySyntaxError, UnsupportedQuery, UndeclaredPrefix)
}


def error_of_problem(problem: Mapping[str, Any], query: str | None, retry_after: float | None) -> TwigcastError:
    """Returns the error that a problem document describes, with the query that was sent, if there was one."""
    code, reason = str(problem.get("code", "")), str(problem.get("detail", "the request failed"))
    if code == TooMany.code:
        return TooMany(reason, retry_after)
    if code == LimitReached.code:
        return LimitReached(reason, str(problem.get("limit", "")), int(problem.get("value", 0)))
    if code == UnknownDelivery.code:
        return UnknownDelivery(reason, problem.get("newest"))
    if code == Standby.code:
        return Standby(reason, problem.get("active"))
    if code == IdReused.code:
        return IdReused(reason, int(problem.get("seq", 0)), problem.get("id"))
    if code in _QUERY:
        return _QUERY[code](query or "", int(problem.get("column", 1)), reason, problem.get("expected", ()))
    if code == MalformedMessage.code:
        return MalformedMessage(problem.get("line") or 1, problem.get("column") or 1, reason)
    if code.startswith("message"):
        return UnreadableMessage(reason)
    if code in _BROKER:
        return _BROKER[code](reason)
    return UnknownProblem(reason, problem)
