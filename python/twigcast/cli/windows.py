"""Windows on the command line: the options, and delivering when subscriptions say that they are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from twigcast.cli import common
from twigcast.cli.option_groups import OptionGroup
from twigcast.errors import QueryError, RejectedMessage, WindowError
from twigcast.limits import Limits
from twigcast.reading.messages import Message
from twigcast.subscription_files import says_when
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from twigcast.explanation import Explanation
    from twigcast.message_expressions import MessageExpressions
    from twigcast.spark.window_settings import WindowSettings
    from twigcast.windows.windows import WindowDelivery, Windows


@dataclass(frozen=True, slots=True)
class WhenFlags(OptionGroup):
    """The options of when subscribers are told."""

    when: Annotated[
        str | None,
        typer.Option(
            "--when",
            metavar="JSON",
            help='When subscribers are told whose subscription does not say it: \'{"digest": "1 h"}\' or the like.',
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="XPATH", help="Where a message says when it came, for --when; by default that is now."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class PipelineWindowFlags(WhenFlags):
    """The options of windows on Spark."""

    windows: Annotated[
        bool,
        typer.Option(
            "--windows",
            help="Look at when subscriptions are told also while none says it, as one of a stream may later.",
        ),
    ] = False

    def settings(self, subscriptions: Path) -> WindowSettings | None:
        """Returns what a pipeline on Spark is to do; ``None`` if only the file of subscriptions says that.

        Raises:
            typer.BadParameter: An option cannot be used.
        """
        usual = common.parse_when(self.when)
        if self.time is not None and usual is None and not self.windows and not says_when(subscriptions):
            raise typer.BadParameter("no subscription says when it is told", param_hint="--time")
        if usual is None and self.time is None and not self.windows:
            return None
        from twigcast.spark import WindowSettings

        return WindowSettings(usual=usual, time=self.time)


@dataclass(frozen=True, slots=True)
class WindowFlags(WhenFlags):
    """The options of windows of a command that keeps what it knows in a file."""

    window_state: Annotated[
        Path | None,
        typer.Option(
            "--window-state", metavar="FILE", help="Go on from what is known in this file, and write it there."
        ),
    ] = None

    @property
    def is_used(self) -> bool:
        """Returns whether any of the options was given."""
        return any(one is not None for one in (self.when, self.time, self.window_state))

    def open(
        self, population: SubscriptionSet, when: Mapping[str, object], namespaces: Mapping[str, str], *, is_plain: bool
    ) -> WindowedRun | None:
        """Returns what delivers with windows; ``None`` if no subscription has one.

        Args:
            population: The subscriptions.
            when: By key, when a subscription is told that says it.
            namespaces: The prefixes of ``--time``.
            is_plain: Whether no other option decides how messages are delivered.

        Raises:
            typer.BadParameter: An option cannot be used.
            WindowError: A window cannot be used.
            SnapshotError: The file of the state cannot be read.
        """
        usual = common.parse_when(self.when)
        if usual is None and not when:
            for option, value in (("--time", self.time), ("--window-state", self.window_state)):
                if value is not None:
                    raise typer.BadParameter("no subscription says when it is told", param_hint=option)
            return None
        if not is_plain:
            raise typer.BadParameter("not together with --profile or --envelope", param_hint="--when")
        from twigcast.windows.windows import Windows

        windows = Windows(population)
        for key in population:
            one = when.get(key, usual)
            if one is not None:
                try:
                    windows.add(key, one)  # type: ignore[arg-type]  # what is no mapping is refused there
                except WindowError as error:
                    raise WindowError(f"{key}: {error.word}", error.reason) from None
        if self.window_state is not None and self.window_state.exists():
            windows.restore(self.window_state)
        return WindowedRun(windows, self.window_state, self._clock(namespaces, population.limits))

    def _clock(self, namespaces: Mapping[str, str], limits: Limits) -> MessageExpressions | None:
        if self.time is None:
            return None
        from twigcast.message_expressions import MessageExpressions

        clock = MessageExpressions(limits)
        try:
            clock.add_values("time", self.time, namespaces)
        except QueryError as error:
            raise typer.BadParameter(str(error), param_hint="--time") from None
        return clock


@dataclass(slots=True)
class WindowedRun:
    """The output of a run that delivers when windows say so, in order."""

    windows: Windows
    state: Path | None
    clock: MessageExpressions | None
    last: datetime | None = field(init=False, default=None)

    def deliver(self, population: SubscriptionSet, inbox: common.MessageInput, out: IO[str], *, whole: bool) -> None:
        """Writes who is told of what."""
        for message in inbox:
            try:
                published = self.time(message.id, message.xml)
                answer = self.windows.deliver(message.xml, message_id=message.id, published=published)
            except RejectedMessage as error:
                inbox.reject(message, error)
                continue
            document = None
            if whole:
                document = common.delivered_document(message, inbox.options, population.limits.message_bytes_max)
            self._write(answer.deliveries, out, document)
            for key, trouble in answer.troubles.items():
                common.complain(f"{message.id}: {key}: {trouble}")
            inbox.report_undecided(message.id, answer.undecided)
        # What goes on with the next run is not over because this one is.
        end = self.last if self.state is not None else None
        self._write(self.windows.due(end), out, None)
        if self.windows.late:
            common.complain(f"came too late to count for a window: {self.windows.late:,}")

    def explain(self, key: str, message: Message) -> Explanation:
        """Returns why a subscriber is told of a message or not, after those before it.

        Raises:
            RejectedMessage: It is not well-formed, or over a limit.
        """
        published = self.time(message.id, message.xml)
        explanation = self.windows.explain(message.xml, key, message_id=message.id, published=published)
        self.windows.deliver(message.xml, message_id=message.id, published=published)
        return explanation

    def explain_all(self, keys: Iterable[str], message: Message) -> dict[str, dict[str, Any]]:
        """Returns what windows make of a message, by key, of those subscriptions that have one.

        Raises:
            RejectedMessage: It is not well-formed, or over a limit.
        """
        published = self.time(message.id, message.xml)
        windowed = [key for key in keys if self.windows.window(key) is not None]
        made = {
            key: self.windows.explain(message.xml, key, message_id=message.id, published=published) for key in windowed
        }
        self.windows.deliver(message.xml, message_id=message.id, published=published)
        return {key: dict(one.details["window"]) for key, one in made.items()}

    def time(self, message_id: str, xml: bytes) -> datetime | None:
        """Returns when a message came; ``None`` for now."""
        if self.clock is None:
            return None
        from twigcast.lifecycle.times import seconds_of

        text = next(iter(self.clock.read(xml).of("time")), None)
        seconds = None if text is None else seconds_of(text)
        if seconds is None:
            common.complain(f"{message_id}: it says no time, and counts as of the one before")
        else:
            self.last = datetime.fromtimestamp(seconds, UTC)
        return self.last

    def _write(self, deliveries: Iterable[WindowDelivery], out: IO[str], document: str | None) -> None:
        for one in deliveries:
            line: dict[str, Any] = {"message": one.stands_for[-1] if one.stands_for else None, "key": one.key}
            if one.action is not None:
                told: dict[str, Any] = {"action": one.action.value, "key": one.window_key, "messages": one.stands_for}
                line["window"] = told | ({} if one.old is None else {"old": one.old, "new": one.new})
            line["payload"] = one.payload.decode() if one.rewritten else document
            out.write(common.as_json(line) + "\n")

    def save(self) -> None:
        """Writes what is known, if it is to be written: once the deliveries are, so that none of them is lost."""
        if self.state is not None:
            self.windows.save(self.state)
