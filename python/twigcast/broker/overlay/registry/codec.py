"""Commands of the log, replies, and what the services of brokers say to each other: as JSON, named by their kind."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import orjson
from pydantic import TypeAdapter, ValidationError

from twigcast.errors import TwigcastError
from twigcast.overlay.onyx.messages import SourceEntry
from twigcast.overlay.onyx.registry.catalogue import (
    AddBroker,
    Assigned,
    NameTaken,
    Reassigned,
    RegisterProfile,
    RegisterSource,
    RegistryState,
    RemoveBroker,
    RemoveProfile,
    RemoveSource,
)
from twigcast.overlay.onyx.registry.raft_log import Append, Appended, Install, Installed, RequestVote, Vote


class ChangedReply(NamedTuple):
    """Reply: whether there was anything to be done."""

    value: bool


class RegistryRequest(NamedTuple):
    """To a holder: carry this out, once.

    Attributes:
        request: Names it among all that were ever asked.
        command: Its text.
        is_question: It changes nothing: the holder answers from what it knows.
    """

    request: str
    command: str
    is_question: bool = False


class RegistryReply(NamedTuple):
    """From a holder: it is done; the reply's text."""

    request: str
    reply: str


class LeaderHint(NamedTuple):
    """From a holder that does not lead: the name of the one that does, if it knows."""

    request: str
    leader: str | None


Command: TypeAlias = AddBroker | RemoveBroker | RegisterSource | RemoveSource | RegisterProfile | RemoveProfile
Reply: TypeAlias = Assigned | NameTaken | Reassigned | ChangedReply
RaftMessage: TypeAlias = RequestVote | Vote | Append | Appended | Install | Installed
Said: TypeAlias = RegistryRequest | RegistryReply | LeaderHint | RaftMessage

_KINDS: Final[dict[str, Any]] = {
    "broker": AddBroker,
    "broker-gone": RemoveBroker,
    "source": RegisterSource,
    "source-gone": RemoveSource,
    "profile": RegisterProfile,
    "profile-gone": RemoveProfile,
    "assigned": Assigned,
    "taken": NameTaken,
    "moved": Reassigned,
    "flag": ChangedReply,
    "ask": RegistryRequest,
    "answer": RegistryReply,
    "elsewhere": LeaderHint,
    "request-vote": RequestVote,
    "vote": Vote,
    "append": Append,
    "appended": Appended,
    "install": Install,
    "installed": Installed,
    "state": RegistryState,
    "entry": SourceEntry,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {name: TypeAdapter(kind) for name, kind in _KINDS.items()}


class TextError(TwigcastError):
    """A text that says nothing that is known."""


def write(item: Command | Reply | Said | SourceEntry | RegistryState) -> bytes:
    """A thing as a text."""
    name = _NAMES[type(item)]
    return orjson.dumps([name, _ADAPTERS[name].dump_python(item, mode="json")])


def read(text: bytes | str) -> Any:
    """The thing that a text says.

    Raises:
        TextError: None that is known.
    """
    try:
        name, content = orjson.loads(text)
        return _ADAPTERS[name].validate_python(content)
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise TextError(f"no text of the registry: {error}") from None
