"""Subscriptions as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def as_lines(subscriptions: Iterable[Mapping[str, Any]] | bytes) -> bytes:
    """Subscriptions as an import takes them."""
    if isinstance(subscriptions, bytes):
        return subscriptions
    return "".join(json.dumps(dict(item)) + "\n" for item in subscriptions).encode()
