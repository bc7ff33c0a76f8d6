"""``twigcast publish``: sends messages to a broker."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.profiles import BrokerFlags
from twigcast.cli.client.urgency import MessageUrgencyFlags
from twigcast.errors import RejectedMessage, TwigcastError, UnreadableMessage
from twigcast.reading.messages import Message

if TYPE_CHECKING:
    from twigcast.client import Accepted, Client

_BATCH_MESSAGES: Final = 500
_BATCH_BYTES: Final = 1 << 20
_AHEAD: Final = 1_000
"""Messages that are read while others are on their way."""


def publish(
    messages: common.MessagesArgument,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="The source of the messages; by default default.")
    ] = None,
    message_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="The id of the one message. A source has one message of an id; another body is refused.",
        ),
    ] = None,
    *,
    urgency: MessageUrgencyFlags,
    reading: common.ReadingFlags,
    namespace: common.NamespaceOption = None,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
    as_json: connection.JsonOption = False,
    broker: BrokerFlags,
) -> int:
    r"""Publish messages to a broker, which has stored each when its line is printed.

    \b
    Examples:
      twigcast publish alert.xml
      twigcast publish --source weather inbox/
      twigcast publish --priority 9 --deadline '15 min' tornado.xml
      twigcast publish --record item --record-id guid channel.xml
      curl ... | twigcast publish --documents -

    Exit status: 0 done, 2 bad usage or the broker did not do it, 3 some messages rejected.
    """
    inbox = common.MessageInput(messages, reading, errors, common.parse_namespaces(namespace))
    if message_id is not None and (len(messages) > 1 or inbox.options.cuts or Path(messages[0]).is_dir()):
        raise typer.BadParameter("it is for one message; records get theirs by --record-id", param_hint="--id")
    about = {"source": source, "priority": urgency.priority, "deadline": urgency.deadline}
    with connection.connected(broker) as client:
        sender = _Sender(client, inbox, about, message_id, with_own_ids=reading.record_id is not None, json=as_json)
        for group in _Ahead(inbox).groups():
            sender.send(group)
    return inbox.status


class _Ahead:
    """A reader of messages in a thread of its own, so that none waits for the ones that come after it."""

    def __init__(self, messages: common.MessageInput) -> None:
        self._messages = messages
        self._read: queue.Queue[Message | BaseException | None] = queue.Queue(_AHEAD)

    def groups(self) -> Iterator[list[Message]]:
        """Yields all that has been read, in groups of a bounded size; raises what reading raises."""
        threading.Thread(target=self._run, daemon=True).start()
        group: list[Message] = []
        size = 0
        while True:
            if group and (self._read.empty() or len(group) >= _BATCH_MESSAGES or size >= _BATCH_BYTES):
                yield group
                group, size = [], 0
            item = self._read.get()
            if isinstance(item, Message):
                group.append(item)
                size += len(item.xml)
                continue
            if group:
                yield group
            if item is not None:
                raise item
            return

    def _run(self) -> None:
        try:
            for message in self._messages:
                self._read.put(message)
        except BaseException as error:  # noqa: BLE001 - it is raised where the messages are sent
            self._read.put(error)
        else:
            self._read.put(None)


@dataclass(slots=True)
class _Sender:
    """A sender of groups of messages, which prints what became of each."""

    client: Client
    inbox: common.MessageInput
    about: Mapping[str, Any]
    """The source and the urgency of all messages."""
    message_id: str | None
    with_own_ids: bool = field(kw_only=True)
    json: bool = field(kw_only=True)

    def send(self, group: list[Message]) -> None:
        """Publishes messages in order: together if they fit into one request."""
        if len(group) == 1:
            self._send_alone(group[0])
            return
        large = [message for message in group if len(message.xml) > _BATCH_BYTES]
        if large:
            for message in group:
                self._send_alone(message)
            return
        self._send_together(group)

    def _id(self, message: Message) -> str | None:
        return message.id if self.with_own_ids else self.message_id

    def _send_alone(self, message: Message) -> None:
        from twigcast.broker.errors import IdReused, TooLarge

        try:
            accepted = self.client.publish(message.xml, message_id=self._id(message), **self.about)
        except RejectedMessage as error:
            self.inbox.reject(message, error)
        except (IdReused, TooLarge) as error:
            self.inbox.reject(message, UnreadableMessage(str(error)))
        else:
            self._show(message, accepted)

    def _send_together(self, group: list[Message]) -> None:
        from twigcast.client import Accepted, Publication, Rejected

        outcomes = self.client.publish_many(
            [Publication(message.xml, self._id(message)) for message in group], **self.about
        )
        for message, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Accepted):
                self._show(message, outcome)
            elif isinstance(outcome, Rejected):
                self.inbox.reject(message, _refusal(outcome.code, outcome.reason, outcome.line, outcome.column))
            else:
                self.inbox.reject(message, UnreadableMessage(outcome.reason))

    def _show(self, message: Message, accepted: Accepted) -> None:
        if self.json:
            row = {"message": message.id, "seq": accepted.seq, "id": accepted.id, "matches": accepted.matches}
            more = {"effect": accepted.effect, "trouble": accepted.trouble}
            row |= {"duplicate": accepted.duplicate, **{name: one for name, one in more.items() if one is not None}}
            print(common.as_json(row), flush=True)
            return
        plural = "" if accepted.matches == 1 else "es"
        what = "is there already as" if accepted.duplicate else "is"
        effect = "" if accepted.effect is None else f" ({accepted.effect})"
        print(f"{message.id} {what} message {accepted.seq}: {accepted.matches:,} match{plural}{effect}", flush=True)
        if accepted.trouble is not None:
            common.complain(f"{message.id}: {accepted.trouble}")


def _refusal(code: str, reason: str, line: int | None, column: int | None) -> RejectedMessage:
    """Returns the error of a message that a broker rejected within a batch."""
    from twigcast.client.errors import error_of_problem

    problem = {"code": code, "detail": reason, "line": line, "column": column}
    error: TwigcastError = error_of_problem(problem, None, None)
    return error if isinstance(error, RejectedMessage) else UnreadableMessage(reason)
