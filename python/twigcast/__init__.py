"""Twigcast delivers XML messages to the people and programs that subscribe to them.

What lives where:

- ``subscriptions``, ``registration``, ``answers``: :class:`SubscriptionSet`, the public face of the matching engine
- ``query_check``: reports on queries without a message
- ``envelope``: an element around each delivery
- ``limits``: bounds that keep hostile messages and queries from exhausting a machine
- ``errors``: every error and warning; ``installing``: advice on installing extras
- ``subscription_files``, ``subscription_formats``, ``subscription_items``: subscriptions from files, tables and records
- ``message_nodes``: paths to nodes, and their texts; ``publication``: the time of a message, ``$now`` in queries
- ``notebook``, ``markup``, ``progress``: display in notebooks and terminals; ``arrow_types``: static types for pyarrow
- ``forking``: locks in processes that fork
- ``worker_process``: processes that answer requests, for work that cannot be interrupted
- ``engine``: the session, through which all others call the compiled engine; Arrow batches; external queries
- ``lifecycle``: messages that update and cancel each other, and who is to learn of it
- ``windows``: when subscribers get something; ``message_expressions``: values that both read of messages
- ``reading``: from bytes to messages
- ``query``: queries as data; ``schema``: DTDs; ``explanation``: why a query matches; ``xquery``: the Saxon process
- ``spark``: the pipeline on Apache Spark
- ``overlay``: networks of brokers and peers; ``peers``: a peer as a process
- ``broker``: the service; ``client``: its HTTP client
- ``cli``: the command line; ``demo``: a small feed
- ``lab``: reference algorithms, workloads, simulations and experiments; the rest does not need it
- ``_core``: the compiled engine; internal
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from twigcast._core import VERSION
from twigcast.answers import Deliveries, Delivery, Match, Node
from twigcast.envelope import Envelope
from twigcast.errors import QueryError, QueryWarning, RejectedMessage, TwigcastError
from twigcast.limits import Limits
from twigcast.registration import AddReport, RefusedSubscription, Subscription, SubscriptionWarning
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from twigcast.engine.statistics import EngineStatistics
    from twigcast.explanation.explainer import Explanation, explain
    from twigcast.lifecycle.lifecycle import Lifecycle
    from twigcast.query_check import QueryReport, check
    from twigcast.windows.windows import Windows

__version__ = VERSION

__all__ = [
    "AddReport",
    "Deliveries",
    "Delivery",
    "EngineStatistics",
    "Envelope",
    "Explanation",
    "Lifecycle",
    "Limits",
    "Match",
    "Node",
    "QueryError",
    "QueryReport",
    "QueryWarning",
    "RefusedSubscription",
    "RejectedMessage",
    "Subscription",
    "SubscriptionSet",
    "SubscriptionWarning",
    "TwigcastError",
    "Windows",
    "__version__",
    "check",
    "explain",
]

_IMPORTED_WHEN_USED: Final = {
    "EngineStatistics": "twigcast.engine.statistics",
    "Explanation": "twigcast.explanation.explainer",
    "Lifecycle": "twigcast.lifecycle.lifecycle",
    "QueryReport": "twigcast.query_check",
    "check": "twigcast.query_check",
    "Windows": "twigcast.windows.windows",
    "explain": "twigcast.explanation.explainer",
}
"""The modules of names that matching does without, so that programs start sooner."""


def __getattr__(name: str) -> object:
    """Imports a name that is used for the first time."""
    if name not in _IMPORTED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_IMPORTED_WHEN_USED[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
