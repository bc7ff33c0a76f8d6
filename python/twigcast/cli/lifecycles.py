"""Life cycles on the command line: the options, and delivering with what a profile says of messages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from twigcast.cli import common
from twigcast.cli.option_groups import OptionGroup
from twigcast.errors import RejectedMessage
from twigcast.reading.options import ReadOptions
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from twigcast.lifecycle.lifecycle import Lifecycle
    from twigcast.spark.lifecycle_settings import LifecycleSettings


@dataclass(frozen=True, slots=True)
class ProfileFlags(OptionGroup):
    """The options of how messages are followed."""

    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="How messages say what they update or cancel: cap, atom, rss, newsml-g2, nitf, siri-sx, or a file in "
            "TOML or JSON.",
        ),
    ] = None
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--no-follow",
            help="Whether those who got a message get its updates and its end though these do not match; else as the "
            "profile says.",
        ),
    ] = None
    withdraw_expired: Annotated[
        bool, typer.Option("--withdraw-expired", help="Bring what has expired to nobody new.")
    ] = False

    def settings(self, *, enveloped: bool) -> LifecycleSettings | None:
        """Returns what a pipeline on Spark is to do; ``None`` without a profile.

        Raises:
            typer.BadParameter: An option has no meaning without a profile, or beside it.
        """
        self.check(enveloped=enveloped)
        if self.profile is None:
            return None
        from twigcast.spark import LifecycleSettings

        return LifecycleSettings(
            profile=self.profile, follow=self.follow, withdraw_expired=self.withdraw_expired or None
        )

    def check(self, *, enveloped: bool) -> None:
        """Raises an error if an option has no meaning without a profile, or beside it.

        Raises:
            typer.BadParameter: It has none.
        """
        if self.profile is not None:
            if enveloped:
                raise typer.BadParameter("it cannot be used together with --profile", param_hint="--envelope")
            return
        for option, is_set in self.options().items():
            if is_set:
                raise typer.BadParameter("it needs --profile", param_hint=option)

    def options(self) -> dict[str, bool]:
        """Returns, by option, whether it was given."""
        return {"--follow": self.follow is not None, "--withdraw-expired": self.withdraw_expired}


@dataclass(frozen=True, slots=True)
class LifecycleFlags(ProfileFlags):
    """The options of a command that follows messages, and keeps what it knows in a file."""

    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Go on from the life cycles in this file, and write them there."),
    ] = None

    def open(self, *, enveloped: bool) -> LifecycleOutput | None:
        """Returns what delivers with life cycles; ``None`` without a profile.

        Raises:
            typer.BadParameter: An option has no meaning without a profile, or beside it.
            SnapshotError: The file of the state cannot be read.
        """
        self.check(enveloped=enveloped)
        if self.profile is None:
            return None
        from twigcast.lifecycle.lifecycle import Lifecycle

        lifecycle = Lifecycle(self.profile, follow=self.follow, withdraw_expired=self.withdraw_expired or None)
        if self.state is not None and self.state.exists():
            lifecycle.restore(self.state)
        return LifecycleOutput(lifecycle, self.state)

    def options(self) -> dict[str, bool]:
        """Returns, by option, whether it was given."""
        return {**ProfileFlags.options(self), "--state": self.state is not None}


@dataclass(slots=True)
class LifecycleOutput:
    """The output of a run that delivers messages with their life cycles, in order."""

    lifecycle: Lifecycle
    state: Path | None

    def read_options(self, options: ReadOptions) -> ReadOptions:
        """Returns options that also cut documents into the items of the profile."""
        return self.lifecycle.profile.read_options(options)

    def deliver(self, population: SubscriptionSet, inbox: common.MessageInput, out: IO[str], *, whole: bool) -> None:
        """Writes the deliveries of each message, and of matters that have expired meanwhile."""
        effects: Counter[str] = Counter()
        unidentified = 0
        for message in inbox:
            try:
                answer, payloads = self.lifecycle.deliver(population, message.xml, message_id=message.id)
            except RejectedMessage as error:
                inbox.reject(message, error)
                continue
            effects[answer.effect.value] += 1
            unidentified += answer.facts.identity is None
            if answer.facts.trouble is not None:
                common.complain(f"{message.id}: {answer.facts.trouble}")
            document = None
            if whole:
                document = common.delivered_document(message, inbox.options, population.limits.message_bytes_max)
            for one in payloads:
                line: dict[str, object] = {"message": message.id, "key": one.key, "relation": one.relation}
                if withdrawn := answer.withdrawn.get(one.key):
                    line["withdrawn"] = withdrawn
                line["payload"] = one.payload.decode() if one.rewritten else document
                out.write(common.as_json(line) + "\n")
            inbox.report_undecided(message.id, answer.undecided)
        for over in self.lifecycle.expire(population):
            for key in over.keys:
                line = {"message": over.message_id, "key": key, "relation": "expired", "payload": None}
                out.write(common.as_json(line) + "\n")
        self._report(effects, unidentified)

    def save(self) -> None:
        """Writes the state, if an option asks for it. Deliveries have to be written before, so that none is lost."""
        if self.state is not None:
            self.lifecycle.save(self.state)

    def _report(self, effects: Counter[str], unidentified: int) -> None:
        """Says what was not delivered as usual, so that nothing is left out in silence."""
        name = self.lifecycle.profile.name
        if effects["duplicate"] or effects["superseded"]:
            common.complain(
                f"not delivered again: duplicates {effects['duplicate']:,}, overtaken by later messages "
                f"{effects['superseded']:,}"
            )
        if unidentified:
            common.complain(
                f"warning: without an identity by the profile {name!r}, and so without a life cycle: {unidentified:,}"
            )
        if self.lifecycle.forgotten:
            common.complain(f"matters forgotten, as they are old or too many: {self.lifecycle.forgotten:,}")
