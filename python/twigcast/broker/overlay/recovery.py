"""What other brokers ask for again: messages that were published here, read from the store in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from twigcast.broker.model import StoredMessage
from twigcast.broker.store.interface import Store
from twigcast.overlay.onyx.model import Message, Root

MESSAGES_AT_ONCE: Final = 100
BYTES_AT_ONCE: Final = 4 << 20
"""Read at a time."""

CONTENT_TYPE: Final = "application/xml; charset=utf-8"
"""Of all that is stored: the hub has brought it into this form."""


def as_message(root: Root, stored: StoredMessage, tenants: Mapping[int, str]) -> Message | None:
    """A stored message as it goes to other brokers; `None`: its tenant is gone."""
    scope = tenants.get(stored.tenant_id)
    if scope is None:
        return None
    return Message(
        root,
        stored.seq,
        scope,
        stored.source,
        stored.message_id,
        CONTENT_TYPE,
        stored.xml,
        path=(root,),
        published=stored.received,
    )


async def read_again(
    store: Store, root: Root, after: int, upto: int, tenants: Callable[[], Mapping[int, str]]
) -> AsyncIterator[tuple[int, list[Message]]]:
    """The messages published here with numbers above `after` up to `upto`, in pieces.

    Yields:
        How far a piece goes, and its messages.

    Raises:
        StoreUnavailable: The store does not answer.
    """
    position = after
    while position < upto:
        start = position
        found = await asyncio.to_thread(
            lambda start=start: store.own_messages(  # type: ignore[misc]
                after=start, up_to=upto, limit=MESSAGES_AT_ONCE, bytes_max=BYTES_AT_ONCE
            )
        )
        position = found[-1].seq if found else upto
        names = tenants()
        messages = [message for stored in found if (message := as_message(root, stored, names)) is not None]
        yield position, messages
