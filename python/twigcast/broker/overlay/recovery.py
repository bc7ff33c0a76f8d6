"""What other brokers ask for again: messages that were published here, read from the store in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from twigcast.broker.model import StoredMessage
from twigcast.broker.store.store import Store
from twigcast.overlay.onyx.messages import OverlayMessage, Root

MESSAGES_AT_ONCE: Final = 100
BYTES_AT_ONCE: Final = 1 << 20
"""Read at a time."""

PORTION_BYTES: Final = 1 << 20
"""Of an answer, after which it pauses until the asker has got so far. A broker may ask for some gaps at a time, and
some brokers by way of one link, which is broken off where many times more waits for it."""

CONTENT_TYPE: Final = "application/xml; charset=utf-8"
"""Of all that is stored: the hub has brought it into this form."""


def as_message(root: Root, stored: StoredMessage, tenants: Mapping[int, str]) -> OverlayMessage | None:
    """A stored message as it goes to other brokers; `None`: its tenant is gone."""
    scope = tenants.get(stored.tenant_id)
    if scope is None:
        return None
    return OverlayMessage(
        root,
        stored.seq,
        scope,
        stored.source,
        stored.message_id,
        CONTENT_TYPE,
        stored.xml,
        published=stored.received,
    )


async def read_again(
    store: Store,
    root: Root,
    after: int,
    upto: int,
    tenants: Callable[[], Mapping[int, str]],
    make_matcher: Callable[[], Callable[[OverlayMessage], bool]],
) -> AsyncIterator[tuple[int, list[OverlayMessage]]]:
    """Those of the messages published here that are wanted, in pieces; read and matched in threads.

    Args:
        store: Where they are.
        root: Number of this broker.
        after: Above which number.
        upto: Up to which number.
        tenants: Their names by number.
        make_matcher: Makes what says whether a message is wanted.

    Yields:
        How far a piece goes, and its messages.

    Raises:
        StoreUnavailable: The store does not answer.
    """
    matches = await asyncio.to_thread(make_matcher)

    def piece(start: int) -> tuple[int, list[OverlayMessage]]:
        results = store.own_messages(after=start, up_to=upto, limit=MESSAGES_AT_ONCE, bytes_max=BYTES_AT_ONCE)
        names = tenants()
        messages = [message for stored in results if (message := as_message(root, stored, names)) is not None]
        required = [message._replace(path=(root,)) for message in messages if matches(message)]
        return (results[-1].seq if results else upto), required

    while after < upto:
        after, requested = await asyncio.to_thread(piece, after)
        yield after, requested
