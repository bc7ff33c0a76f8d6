"""Prints what the commands that talk to a broker answer: deliveries, tables, JSON lines."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from twigcast.cli.common import as_json

if TYPE_CHECKING:
    from twigcast.client import Delivery, Subscription


def as_row(value: Any) -> dict[str, Any]:
    """Returns a value of the client as JSON can hold it."""
    return {
        item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value) if item.name != "warnings"
    }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def print_rows(rows: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    """Prints rows of equal members as JSON lines, or as a table without lines."""
    if json:
        sys.stdout.writelines(as_json(row) + "\n" for row in rows)
        return
    if not rows:
        return
    table = [[name.replace("_", " ") for name in rows[0]], *([cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def cell(value: Any) -> str:
    """Returns a value as one line of text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, Mapping):
        return " ".join(f"{name}={one}" for name, one in sorted(value.items())) or "-"
    if isinstance(value, int):
        return f"{value:,}"
    text = ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
    return " ".join(text.split())


def print_delivery(delivery: Delivery, *, json: bool) -> None:
    """Prints a delivery: its XML and a line feed, or all of it as JSON. It has left this process when this returns."""
    if json:
        print(as_json(as_row(delivery)), flush=True)
        return
    text = (delivery.xml or "").encode("utf-8", "surrogatepass")
    sys.stdout.flush()
    sys.stdout.buffer.write(text if text.endswith(b"\n") else text + b"\n")
    sys.stdout.buffer.flush()


def summary_of(subscription: Subscription) -> dict[str, Any]:
    """Returns the members of a subscription that a table shows."""
    return {
        "key": subscription.key,
        "state": subscription.state,
        "subscriber": subscription.subscriber,
        "delivery": subscription.url or subscription.kind,
        "overflow": subscription.overflow,
        "query": subscription.query,
    }
