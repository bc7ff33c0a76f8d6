"""Transformation of messages by For-Where-Return queries, run one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from twigcast.limits import Limits
from twigcast.overlay.onyx.content.projection import QueryText
from twigcast.subscriptions import SubscriptionSet


class Transformation:
    """A sequence of compiled queries. Each transforms the result of the one before."""

    def __init__(self, queries: Iterable[QueryText], limits: Limits | None = None) -> None:
        """Compiles the queries.

        Raises:
            QueryError: A query is refused.
        """
        self._stages: list[SubscriptionSet] = []
        for query in queries:
            stage = SubscriptionSet(namespaces=dict(query.namespaces), limits=limits or Limits())
            stage.add_many([("only", query.text)]).raise_if_refused()
            self._stages.append(stage)

    def run(self, message: bytes) -> bytes | None:
        """Returns the transformed message, or `None` if a query does not match.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
        """
        for stage in self._stages:
            deliveries = list(stage.deliver(message))
            if not deliveries:
                return None
            message = deliveries[0].payload
        return message
