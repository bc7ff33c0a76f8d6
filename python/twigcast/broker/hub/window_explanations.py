"""Explanations of what the windows of subscriptions make of messages, by what the store knows of them."""

from __future__ import annotations

import time

from twigcast.broker.model import StoredMessage, StoredSubscription
from twigcast.broker.store.store import Store
from twigcast.explanation import Explanation
from twigcast.limits import Limits
from twigcast.windows.explaining import explain_event, explain_stored_event
from twigcast.windows.expressions import WindowTable
from twigcast.windows.states import due

_UNNAMED = "this message"
"""What a message is called that is not stored."""


def with_window(
    explanation: Explanation,
    subscription: StoredSubscription,
    message: bytes | StoredMessage,
    store: Store,
    limits: Limits,
) -> Explanation:
    """Returns an explanation with what the window of the subscription makes of the message. Blocks.

    Of a message that is not stored it says whether its subscriber would be told now; of a stored one, which has counted
    when it came, what is known of it.
    """
    window = subscription.window
    if window is None:
        return explanation
    table: WindowTable[int] = WindowTable(limits)
    table.put(subscription.id, window, subscription.namespaces)
    registered = table.get(subscription.id)
    assert registered is not None, "it was just put there"
    is_stored = isinstance(message, StoredMessage)
    xml = message.with_ids if isinstance(message, StoredMessage) else message
    handle = message.seq if isinstance(message, StoredMessage) else _UNNAMED
    arrived = message.received if isinstance(message, StoredMessage) else time.time()
    key, event, trouble = table.values(xml).event(registered, handle, arrived, is_first=explanation.matches)
    stored = None if key is None else store.window_state(subscription.id, key)
    state = None if stored is None else stored.state
    if is_stored:
        return explanation.with_window(explain_stored_event(window, key, state, event, trouble))
    return explanation.with_window(explain_event(window, key, due(window, state, arrived).state, event, trouble))
