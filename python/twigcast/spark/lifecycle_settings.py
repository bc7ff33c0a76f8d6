"""The settings of a pipeline that follows messages that update and cancel each other."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from twigcast.lifecycle.lifecycle import RETENTION_SECONDS
from twigcast.lifecycle.profiles import LifecycleProfile, read_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """The settings of life cycles: what updates, cancels and repeats what, and who is to learn of it.

    Raises:
        LifecycleProfileError: There is no such profile, or a part of it cannot be used.
        SourceError: The file of the profile cannot be read.
    """

    profile: str | os.PathLike[str] | Mapping[str, object] | LifecycleProfile
    """Where messages say what they are, as for :class:`twigcast.Lifecycle`."""

    follow: bool | Mapping[str, bool] | None = None
    """Whether subscriptions that got a message get its updates and its end though these do not match: for all of them,
    or by key for some; ``None``, and for other keys: as the profile says."""

    withdraw_expired: bool | None = None
    """Whether what has expired is brought to nobody new; ``None``: as the profile says."""

    retention_seconds: float = RETENTION_SECONDS
    """After this time without a change, counted from its end if that is later, a matter is forgotten."""

    by: str | None = None
    """The column that keeps matters apart: messages with different values of it never belong together. Each value is
    followed by one task at a time. By default all messages are followed together, by one task."""

    published: str | None = None
    """The column of timestamps that says when each message was published, which is ``$now`` to queries and what expiry
    goes by; by default that is the time of its micro-batch. Where a stream has a watermark of this column, expiry goes
    by the watermark, else by the clock."""

    order: str | None = None
    """The column by which messages of one micro-batch are put in order: numbers, times or texts. By default it is
    ``published``, then the time of the file in a stream of files, then the id, whose digits count as numbers."""

    def __post_init__(self) -> None:
        if self.retention_seconds <= 0:
            raise ValueError("retention_seconds must be greater than 0")
        object.__setattr__(self, "profile", read_profile(self.profile))

    @property
    def read(self) -> LifecycleProfile:
        """The profile as it was read."""
        assert isinstance(self.profile, LifecycleProfile)
        return self.profile

    @property
    def columns(self) -> list[str]:
        """The columns of messages that it needs."""
        return [column for column in (self.by, self.published, self.order) if column is not None]

    @property
    def withdraws(self) -> bool:
        """Returns whether what has expired is brought to nobody new."""
        return self.read.withdraw_expired if self.withdraw_expired is None else self.withdraw_expired

    def follows(self, key: str) -> bool:
        """Returns whether a subscription gets what no longer matches it."""
        if isinstance(self.follow, Mapping):
            return self.follow.get(key, self.read.follow)
        return self.read.follow if self.follow is None else self.follow
