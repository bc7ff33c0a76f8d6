"""Locks after a fork.

The child of a fork has only the thread that forked, and a copy of all memory. There, a lock that another thread held
stays locked for ever. So its owner has to create a new one. The compiled engine does so with its own locks.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class LockOwner(Protocol):
    """An object with locks of its own."""

    def renew_locks(self) -> None:
        """Replaces the locks, and lets go of what belongs to the process that forked."""


_owners: Final[weakref.WeakSet[LockOwner]] = weakref.WeakSet()


def renew_in_children(owner: LockOwner) -> None:
    """Lets the locks of an object be renewed in every process that is forked while the object is there."""
    _owners.add(owner)


def _renew() -> None:
    for owner in list(_owners):
        owner.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
