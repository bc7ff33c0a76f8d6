"""Commands, replies and messages of the registry as JSON, each with the name of its kind."""

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
from twigcast.overlay.onyx.registry.raft import Append, Appended, Install, Installed, RequestVote, Vote


class ChangedReply(NamedTuple):
    """A reply: whether the command has changed anything."""

    value: bool


class RegistryRequest(NamedTuple):
    """A request, under a unique name, to carry out a command once; any holder answers a question."""

    request: str
    command: str
    is_question: bool = False


class RegistryReply(NamedTuple):
    """The answer of a holder that has carried out a command, with the text of the reply."""

    request: str
    reply: str


class LeaderHint(NamedTuple):
    """The answer of a holder that does not lead, with the name of the leader if it is known."""

    request: str
    leader: str | None


Command: TypeAlias = AddBroker | RemoveBroker | RegisterSource | RemoveSource | RegisterProfile | RemoveProfile
Reply: TypeAlias = Assigned | NameTaken | Reassigned | ChangedReply
RaftMessage: TypeAlias = RequestVote | Vote | Append | Appended | Install | Installed
RegistryMessage: TypeAlias = RegistryRequest | RegistryReply | LeaderHint | RaftMessage

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
    """A text that holds no value of a known kind."""


def write(item: Command | Reply | RegistryMessage | SourceEntry | RegistryState) -> bytes:
    """Returns a value as JSON."""
    name = _NAMES[type(item)]
    return orjson.dumps([name, _ADAPTERS[name].dump_python(item, mode="json")])


def read(text: bytes | str) -> Any:
    """Returns the value of a JSON text; raises TextError if it is faulty, or of an unknown kind."""
    try:
        name, content = orjson.loads(text)
        return _ADAPTERS[name].validate_python(content)
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise TextError(f"no text of the registry: {error}") from None
