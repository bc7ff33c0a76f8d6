"""``twigcast check``: reports whether texts are queries, and how they run."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twigcast.cli import common
from twigcast.cli.colours import painted
from twigcast.errors import DuplicateKey, QueryError, SubscriptionFileError, TwigcastError
from twigcast.limits import Limits
from twigcast.query_check import QueryReport
from twigcast.query_check import check as check_query
from twigcast.registration import Subscription
from twigcast.subscription_files import SubscriptionFileRow, is_snapshot, read_subscriptions
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from twigcast.schema import Satisfiability


def check(
    queries: Annotated[list[str] | None, typer.Argument(metavar="QUERY...", help="Queries.")] = None,
    subscriptions: Annotated[
        Path | None,
        typer.Option("-s", "--subscriptions", metavar="SUBSCRIPTIONS", help="Check all queries of this file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON lines.")] = False,
    namespace: common.NamespaceOption = None,
    dialect: common.DialectOption = common.DialectName.XPATH,
    numbers: common.NumbersOption = None,
    limit: common.LimitOption = None,
    dtd: Annotated[
        Path | None,
        typer.Option("--dtd", metavar="FILE", help="Warn of queries that nothing valid by this DTD can match."),
    ] = None,
) -> int:
    r"""Report how queries run, and what is wrong with them.

    \b
    Examples:
      twigcast check '/nitf//p[@lede="true"]'
      twigcast check -n cap=urn:oasis:names:tc:emergency:cap:1.2 '//cap:info'
      twigcast check -s subscriptions.jsonl
      twigcast check -s subscriptions.jsonl --dtd alerts.dtd

    Exit status: 0 all are queries, 2 some are not.
    """
    if bool(queries) == bool(subscriptions):
        raise typer.BadParameter("give either queries or -s SUBSCRIPTIONS", param_hint="QUERY")
    for name in filter(_is_file, queries or []):
        print(
            f"twigcast: warning: {name} is checked as a query; for those in the file of this name: -s {name}",
            file=sys.stderr,
        )
    items = (
        _from_file(subscriptions) if subscriptions else (_CheckItem(Subscription("", query)) for query in queries or [])
    )
    dialect = common.dialect_reading(dialect, numbers)
    schema = None if dtd is None else _schema_of(dtd)
    checker = _Checker(common.parse_namespaces(namespace), dialect, common.parse_limits(limit), schema)
    routes: Counter[str] = Counter()
    refused = 0
    for item in items:
        outcome = checker.check(item)
        if isinstance(outcome, TwigcastError):
            refused += 1
        else:
            routes[outcome.route] += 1
        _show(item, outcome, as_json=as_json)
    if subscriptions and not as_json:
        _show_tally(routes, refused)
    return common.BAD_USAGE if refused else 0


@dataclass(frozen=True, slots=True)
class _CheckItem:
    """A subscription to check, or why it is not one."""

    subscription: Subscription | SubscriptionFileError
    path: str | None = None
    """The file that it is from."""

    line: int | None = None

    @property
    def label(self) -> str:
        """The file, the line and the key of a subscription from a file; of a snapshot, the key."""
        if self.path is None or isinstance(self.subscription, SubscriptionFileError):
            return ""
        key = self.subscription.key
        return key if self.line is None else f"{self.path}:{self.line}: {key}"


def _is_file(query: str) -> bool:
    """Returns whether a query is also the path of a file."""
    try:
        return Path(query).is_file()
    except (OSError, ValueError):
        return False  # no path is so long, or has such characters


def _from_file(path: Path) -> Iterator[_CheckItem]:
    name = str(path)
    if is_snapshot(name):
        snapshot = SubscriptionSet.load(name)
        yield from (_CheckItem(snapshot[key], name) for key in snapshot)
        return
    for row in read_subscriptions(path):
        if isinstance(row, SubscriptionFileRow):
            yield _CheckItem(row.subscription, name, row.line)
        else:
            yield _CheckItem(row, row.path, row.line)


class _Checker:
    """A checker of subscriptions, which also refuses keys that occur twice."""

    def __init__(
        self,
        namespaces: dict[str, str],
        dialect: common.DialectName,
        limits: Limits,
        schema: "Satisfiability | None",
    ) -> None:
        self._schema = schema
        self._namespaces = namespaces
        self._dialect = dialect
        self._limits = limits
        self._keys: set[str] = set()

    def check(self, item: _CheckItem) -> QueryReport | TwigcastError:
        """Returns the report on a query, or why it is refused."""
        subscription = item.subscription
        if isinstance(subscription, SubscriptionFileError):
            return subscription
        if subscription.key in self._keys:
            return DuplicateKey(subscription.key)
        if item.path is not None:
            self._keys.add(subscription.key)
        try:
            return check_query(
                subscription.query,
                namespaces={**self._namespaces, **subscription.namespaces},
                dialect=subscription.dialect or self._dialect.dialect,
                params=subscription.params,
                limits=self._limits,
                dtd=self._schema,
            )
        except QueryError as error:
            return error


def _schema_of(dtd: Path) -> "Satisfiability":
    from twigcast.schema import Satisfiability, read_dtd  # few checks have a DTD

    return Satisfiability(read_dtd(dtd))


def _show(item: _CheckItem, outcome: QueryReport | TwigcastError, *, as_json: bool) -> None:
    if as_json:
        print(common.as_json(_as_dict(item, outcome)))
    elif isinstance(outcome, TwigcastError):
        common.complain(f"{item.label}: {outcome}" if item.label else str(outcome))
    elif item.label:
        print(f"{item.label}: {painted(outcome.route, 'dim')}: {outcome.normal_form}")
        for warning in outcome.warnings:
            common.complain(f"{item.label}: warning: {warning}")
    else:
        print(painted(outcome.query, "bold"))
        print(f"  normal form: {outcome.normal_form}")
        for line in common.running(outcome):
            print(f"  {line}")
        for warning in outcome.warnings:
            print(f"  {painted('warning:', 'yellow')} {warning}")


def _as_dict(item: _CheckItem, outcome: QueryReport | TwigcastError) -> dict[str, object]:
    place = {"path": item.path, "line": item.line, "key": item.subscription.key}
    identity: dict[str, object] = {name: value for name, value in place.items() if item.path and value is not None}
    if isinstance(item.subscription, Subscription):
        identity["query"] = item.subscription.query
    if isinstance(outcome, TwigcastError):
        return identity | {"error": outcome.details()}
    return identity | {
        "normal_form": outcome.normal_form,
        "route": outcome.route,
        "reason": outcome.reason,
        "cover": outcome.cover,
        "cost": outcome.cost,
        "warnings": list(outcome.warnings),
    }


def _show_tally(routes: Counter[str], refused: int) -> None:
    sys.stdout.flush()
    parts = [f"{count:,} {route}" for route, count in sorted(routes.items())]
    count = routes.total() + refused
    plural = "" if count == 1 else "s"
    verdict = painted(f"{refused:,} refused", "red" if refused else "green", sys.stderr)
    print(f"{count:,} subscription{plural}: {', '.join([*parts, verdict])}", file=sys.stderr)
