"""The settings of a pipeline whose subscribers are told when their windows say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from twigcast.windows.declarations import Window, read_window


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """The settings of windows: when subscribers are told, beside of what.

    Raises:
        WindowError: A window cannot be used.
    """

    when: Mapping[str, Mapping[str, object] | Window] | None = None
    """By key, when a subscription is told, such as ``{"at_least": 3, "within": "10 min"}``. It comes before what the
    file of subscriptions says."""

    usual: Mapping[str, object] | Window | None = None
    """When subscriptions are told that do not say it; by default they are told of each message."""

    published: str | None = None
    """The column of timestamps that says when each message came, which is ``$now`` to queries; by default that is the
    time of its micro-batch. Where a stream has a watermark of this column, what is due goes by the watermark, else by
    the clock."""

    time: str | None = None
    """An expression that says when each message came, in place of a column: of files that are older than now."""

    began: datetime | None = None
    """When the subscriptions began, from which on silence counts for ``absence`` without ``by``; by default when the
    pipeline runs for the first time."""

    def __post_init__(self) -> None:
        if self.published is not None and self.time is not None:
            raise ValueError("say when messages came by a column (published) or by an expression (time), not both")
        if self.when is not None:
            object.__setattr__(self, "when", {key: read_window(one) for key, one in self.when.items()})
        if self.usual is not None:
            object.__setattr__(self, "usual", read_window(self.usual))

    @property
    def columns(self) -> list[str]:
        """The columns of messages that it needs."""
        return [] if self.published is None else [self.published]

    def declared(self, in_file: Mapping[str, object], key: str) -> object:
        """Returns when a subscription is told; ``None`` if of each message."""
        own = (self.when or {}).get(key)
        return own if own is not None else in_file.get(key, self.usual)
