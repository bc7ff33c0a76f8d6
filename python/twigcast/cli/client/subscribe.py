"""``twigcast subscribe``: adds subscriptions to a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.output import as_row
from twigcast.cli.client.profiles import BrokerFlags
from twigcast.cli.client.urgency import UrgencyFlags
from twigcast.errors import InvalidContext, RefusedSubscriptions, SubscriptionFileError, TwigcastError
from twigcast.registration import Params, Subscription
from twigcast.subscription_files import SubscriptionFileRow, is_snapshot, read_subscriptions
from twigcast.subscription_items import checked_params
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from twigcast.client import Client, Imported
    from twigcast.client.calls import Start

_MORE: Final = ("delivery", "subscriber", "overflow", "follow", "when", "urgency")
"""Members of exported subscriptions that files of subscriptions do not have."""


_LeaseOption = Annotated[
    float | None,
    typer.Option("--lease", metavar="SECONDS", min=0.001, max=86_400, help="With --shared: how long a worker has one."),
]
_AttemptsOption = Annotated[
    int | None,
    typer.Option("--attempts-max", metavar="NUMBER", min=1, max=1_000, help="With --shared: then it is a dead letter."),
]
_FollowOption = Annotated[
    bool | None,
    typer.Option(
        "--follow/--no-follow",
        help="Whether it gets the updates and the end of what it got though these do not match; by default as the "
        "profile of their source says.",
    ),
]


_WhenOption = Annotated[
    str | None,
    typer.Option(
        "--when",
        metavar="JSON",
        help='When it is told, as in \'{"digest": "1 h"}\' or \'{"at_least": 3, "within": "10 min"}\'; by '
        "default of each message as it comes.",
    ),
]


class OverflowName(StrEnum):
    """A choice of what happens when too much waits for a subscriber, as an option."""

    SUSPEND = "suspend"
    DROP_OLDEST = "drop_oldest"
    DEAD_LETTER = "dead_letter"
    REFUSE = "refuse"


_OverflowOption = Annotated[
    OverflowName | None, typer.Option("--overflow", help="What happens when too much waits; by default suspend.")
]
_SecretOption = Annotated[
    Path | None, typer.Option("--secret-file", metavar="FILE", help="The secret that signs what is posted.")
]


def subscribe(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="Your own name of the subscription.")] = None,
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="XPath, or For-Where-Return.")] = None,
    subscriptions: common.OptionalSubscriptionsOption = None,
    namespace: common.NamespaceOption = None,
    dialect: common.DialectOption = common.DialectName.XPATH,
    numbers: common.NumbersOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE",
            help="The value of $NAME in the query: a text, or JSON after :=, as in n:=5. May be repeated.",
        ),
    ] = None,
    subscriber: Annotated[
        str | None, typer.Option("--subscriber", metavar="NAME", help="Whose queue it is; by default its own.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option("--webhook", metavar="URL", help="Where deliveries are posted to, instead of pulled.")
    ] = None,
    secret_file: _SecretOption = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="Let several workers take its deliveries beside each other.")
    ] = False,
    lease: _LeaseOption = None,
    attempts_max: _AttemptsOption = None,
    overflow: _OverflowOption = None,
    follow: _FollowOption = None,
    when: _WhenOption = None,
    start: Annotated[
        str,
        typer.Option("--from", metavar="START", help="now, or a stored message: a cursor, a time, or the id of one."),
    ] = "now",
    replace: Annotated[bool, typer.Option("--replace", help="Replace a subscription of this key.")] = False,
    on_bad_subscription: common.OnBadOption = common.OnBadSubscription.FAIL,
    as_json: connection.JsonOption = False,
    *,
    urgency: UrgencyFlags,
    broker: BrokerFlags,
) -> int:
    r"""Subscribe to messages of a broker: to one query, or to all of a file.

    \b
    Examples:
      twigcast subscribe floods "//alert[event = 'Flood']"
      twigcast subscribe mine '//alert[event = $kind]' --param kind=Flood
      twigcast subscribe heavy '//planet[@mass > 1e24]' --numbers xs:double
      twigcast subscribe hook //alert --webhook https://example.org/in --secret-file hook.key
      twigcast subscribe hourly //alert --when '{"digest": "1 h"}'
      twigcast subscribe jobs //order --shared --lease 60 --attempts-max 3
      twigcast subscribe warn //warning --priority 9 --deadline '15 min' --shared --order urgency
      twigcast subscribe -s subscriptions.jsonl --replace

    Exit status: 0 done, 2 bad usage or query, or the broker did not do it.
    """
    _check_usage(key, query, subscriptions, param, start, replace=replace)
    dialect = common.dialect_reading(dialect, numbers)
    declared = common.parse_namespaces(namespace)
    options = {
        "subscriber": subscriber,
        "delivery": urgency.ordered(
            _sharing(lease, attempts_max, shared=shared, pulled=webhook is None) or _delivery(webhook, secret_file)
        ),
        "overflow": overflow and overflow.value,
        "follow": follow,
        "when": common.parse_when(when),
        "urgency": urgency.fields(),
    }
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if subscriptions is not None:
        lines = list(_lines(subscriptions, declared, dialect, on_bad_subscription))
        with connection.connected(broker) as client:
            report = client.import_subscriptions([line | chosen for line in lines], replace=replace)
        return show_import(report, str(subscriptions), json=as_json)
    assert key is not None, "the usage is checked"
    assert query is not None, "the usage is checked"
    context: dict[str, Any] = {"namespaces": declared, "dialect": dialect.dialect, "params": parse_params(param)}
    with connection.connected(broker) as client:
        added = _add(client, key, query, context | chosen, None if replace else parse_start(start))
    _show_added(added, as_json=as_json)
    return 0


def _show_added(added: Any, *, as_json: bool) -> None:
    for warning in added.warnings:
        common.complain(f"warning: {warning}")
    print(common.as_json(as_row(added)) if as_json else f"{added.key}: {added.state}, subscriber {added.subscriber}")


def _check_usage(
    key: str | None, query: str | None, path: Path | None, param: list[str] | None, start: str, *, replace: bool
) -> None:
    if path is None and (key is None or query is None):
        raise typer.BadParameter("give KEY and QUERY, or -s SUBSCRIPTIONS", param_hint="QUERY")
    if path is not None and (key is not None or param):
        raise typer.BadParameter("give either KEY and QUERY or -s SUBSCRIPTIONS", param_hint="--subscriptions")
    if start != "now" and (replace or path is not None):
        other = "--replace" if replace else "-s"
        raise typer.BadParameter(f"not with {other}: it begins with the next message", param_hint="--from")


def _add(client: Client, key: str, query: str, fields: Mapping[str, Any], start: Start | None) -> Any:
    """Adds a subscription from a start on; without one, puts it in the place of another."""
    from twigcast.broker.errors import Conflict

    if start is None:
        return client.replace(key, query, **fields)
    try:
        return client.subscribe(key, query, **fields, start=start)
    except Conflict as error:
        raise Conflict(f"{error}; --replace puts this one in its place") from None


def parse_params(values: list[str] | None) -> Params:
    """Parses parameters of the forms ``NAME=TEXT`` and ``NAME:=JSON``.

    Raises:
        typer.BadParameter: One is not of this form, or its name or value cannot be used.
    """
    params: dict[str, Any] = {}
    for text in values or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--param")
        try:
            params[name.removesuffix(":")] = json.loads(value) if name.endswith(":") else value
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}: what follows := is no JSON: {error}", param_hint="--param") from None
    try:
        return checked_params(params)
    except (InvalidContext, TypeError) as error:
        raise typer.BadParameter(str(error), param_hint="--param") from None


def parse_start(text: str) -> Start:
    """Returns a start: a whole number is a cursor, a text that begins like a date is a time, all else is an id.

    Raises:
        typer.BadParameter: It begins like a date, and is no time with its offset from UTC.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if len(text) < 10 or not (text[:4].isdigit() and text[4] == text[7] == "-"):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    if time.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no offset from UTC: write {text}Z", param_hint="--from")
    return time


def _sharing(lease: float | None, attempts_max: int | None, *, shared: bool, pulled: bool) -> dict[str, Any] | None:
    """Returns the delivery settings of a shared queue; ``None`` without one."""
    given: dict[str, float] = {"lease_seconds": lease or 0.0, "attempts_max": attempts_max or 0}
    given = {name: value for name, value in given.items() if value}
    if given and not shared:
        raise typer.BadParameter("it is a setting of a shared queue", param_hint="--shared")
    if shared and not pulled:
        raise typer.BadParameter("workers pull its deliveries; not with --webhook", param_hint="--shared")
    return {"kind": "pull", "queue": "shared", **given} if shared else None


def _delivery(webhook: str | None, secret_file: Path | None) -> dict[str, Any] | None:
    if webhook is None:
        if secret_file is not None:
            raise typer.BadParameter("it signs what is posted to --webhook URL", param_hint="--secret-file")
        return None
    delivery = {"kind": "webhook", "url": webhook}
    if secret_file is not None:
        try:
            delivery["secret"] = secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"it cannot be read: {error}", param_hint="--secret-file") from None
    return delivery


# --- files ------------------------------------------------------------------------------------------------------------


def _lines(
    path: Path, namespaces: dict[str, str], dialect: common.DialectName, on_bad: common.OnBadSubscription
) -> Iterator[dict[str, Any]]:
    """Yields the subscriptions of a file in the form of an import."""
    _refuse_exports(path)
    refused: list[tuple[str, TwigcastError]] = []
    for row in _rows(path):
        if isinstance(row, SubscriptionFileError):
            refused.append((f"{path}:{row.line}", row))
            continue
        if row.group:
            refused.append((f"{path}: {row.key}", InvalidContext("a broker has no groups; a tenant is one")))
            continue
        line: dict[str, Any] = {"key": row.key, "query": row.query, "dialect": row.dialect or dialect.dialect}
        yield line | {"namespaces": {**namespaces, **row.namespaces}, "params": dict(row.params)}
    if refused and on_bad is common.OnBadSubscription.FAIL:
        raise RefusedSubscriptions(refused)
    for label, error in refused:
        common.complain(
            f"left out: {error}" if isinstance(error, SubscriptionFileError) else f"left out: {label}: {error}"
        )


def _rows(path: Path) -> Iterator[Subscription | SubscriptionFileError]:
    if is_snapshot(str(path)):
        snapshot = SubscriptionSet.load(str(path))
        yield from (snapshot[key] for key in snapshot)
        return
    for row in read_subscriptions(path):
        yield row.subscription if isinstance(row, SubscriptionFileRow) else row


def _refuse_exports(path: Path) -> None:
    """Raises an error for a file that ``subscriptions export`` wrote, if it has members that would be lost."""
    if path.suffix not in (".json", ".jsonl", ".ndjson") or not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            found = [name for name in _MORE if f'"{name}"'.encode() in line]
            row = _object(line) if found else {}
            if any(name in row for name in found):
                reason = f"the member {found[0]!r} is for a broker: use twigcast subscriptions import {path}"
                raise SubscriptionFileError(str(path), number, reason)


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def show_import(report: Imported, name: str, *, json: bool) -> int:
    """Prints what became of an import, and returns the exit status."""
    for refused in report.errors:
        label = f"{name}:{refused.line}" if refused.key is None else f"{name}: {refused.key}"
        common.complain(f"refused: {label}: {refused.reason}")
    counts = {"added": report.added, "replaced": report.replaced, "refused": report.refused}
    if json:
        print(common.as_json({"lines": report.lines, **counts}))
    else:
        print(", ".join(f"{count:,} {what}" for what, count in counts.items()))
    return common.BAD_USAGE if report.refused else 0
