"""Reads subscriptions in the forms in which programs have them: mappings, tuples, records, tables.

A fault of one subscription refuses that one, with its position, and the others are added. An object that is no
subscription at all raises a ``TypeError``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Final, cast

from twigcast.errors import InvalidContext, InvalidKey, MissingExtra, QuerySyntaxError, TwigcastError
from twigcast.reading.text import NO_CHARACTER, half_pair
from twigcast.registration import (
    DIALECTS,
    Dialect,
    ParameterScalar,
    ParameterValue,
    RefusedSubscription,
    Subscription,
    SubscriptionLike,
    Subscriptions,
    SubscriptionWarning,
    require_str,
)

COLUMNS: Final = ("key", "query", "namespaces", "dialect", "group", "params", "numbers")
"""The names of what a record, or a row of a table, says of a subscription."""

_TUPLE_MAX: Final = len(COLUMNS) - 1
"""The most items of a tuple: the dialect says how numbers are read."""

_XML: Final = "http://www.w3.org/XML/1998/namespace"
_PREFIX: Final = re.compile(r"[^\W\d][\w.\-]*")
_OF_MESSAGE: Final = ("doc", "msg")
"""Variables that stand for the message."""


_SHOWN_MAX: Final = 10**40
"""A number that an error repeats is smaller."""

_EXACT_MAX: Final = 1 << 53
"""Whole numbers up to this are doubles."""


def checked_namespaces(namespaces: object) -> dict[str, str]:
    """Returns namespaces by prefix; none for ``None``.

    Raises:
        TypeError: They are no mapping of strings to strings.
        InvalidContext: A prefix cannot stand for its namespace.
    """
    if namespaces is None:
        return {}
    if not isinstance(namespaces, Mapping):
        raise TypeError(f"namespaces must be a mapping of str to str, not {type(namespaces).__name__}")
    for prefix, uri in namespaces.items():
        for value, what in ((prefix, "a prefix"), (uri, "a namespace")):
            if not isinstance(value, str):
                raise TypeError(f"{what} in namespaces must be str, not {type(value).__name__}")
        objection = _objection(prefix, uri)
        if objection is not None:
            raise InvalidContext(objection)
    return dict(namespaces)


def _objection(prefix: str, uri: str) -> str | None:
    """Returns why a prefix cannot stand for a namespace."""
    if prefix == "":
        return None
    if prefix == "xml" and uri != _XML:
        return f"the prefix xml always stands for {_XML}; leave it out of the namespaces, or choose another prefix"
    if prefix == "xmlns":
        return "the prefix xmlns declares namespaces and is no name for one; choose another prefix"
    if not _PREFIX.fullmatch(prefix):
        return f"the prefix {prefix!r} is no name, so no query could use it; choose a name such as p"
    if uri == "":
        return (
            f"the prefix {prefix!r} stands for an empty namespace; give it one, or leave it out: "
            "names without a prefix are in no namespace already"
        )
    return None


def checked_params(params: object) -> dict[str, ParameterValue]:
    """Returns the values of parameters by name; none for ``None``.

    Raises:
        TypeError: They are no mapping of strings to values, or a value is of a type that no query compares with.
        InvalidContext: A name is none, or no number of XPath is as large or as exact as a value.
    """
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a mapping of names to values, not {type(params).__name__}")
    values: dict[str, ParameterValue] = {}
    for name, value in params.items():
        if not isinstance(name, str):
            raise TypeError(f"a name in params must be str, not {type(name).__name__}")
        _check_parameter_name(name)
        if isinstance(value, list | tuple | set | frozenset):
            values[name] = [_scalar(name, one) for one in value]
        else:
            values[name] = _scalar(name, value)
    return values


@lru_cache(maxsize=1_024)
def _check_parameter_name(name: str) -> None:
    """Raises an error for a name that no query could give a parameter."""
    if name.startswith("$"):
        raise InvalidContext(f"the name of a parameter is written without $: {name[1:]!r} for {name!r}")
    if not _PREFIX.fullmatch(name):
        raise InvalidContext(f"the parameter {name!r} is no name, so no query could use it; choose a name such as kind")
    if name in _OF_MESSAGE:
        raise InvalidContext(f"${name} stands for the message; choose another name for the parameter")


def _scalar(name: str, value: object) -> ParameterScalar:
    """Returns a value of a parameter, or one in its list."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if half_pair(value) is not None:
            raise InvalidContext(f"in the parameter {name!r}, {NO_CHARACTER}")
        return value
    if isinstance(value, Integral):
        whole = int(value)
        if abs(whole) > _EXACT_MAX and not _is_double(whole):
            shown = str(whole) if abs(whole) < _SHOWN_MAX else "so large a number"
            raise InvalidContext(f"no double holds {shown} exactly, the value of {name!r}; give it as a text")
        return whole
    if isinstance(value, Real):
        number = float(value)
        if not math.isfinite(number):
            raise InvalidContext(f"the value of the parameter {name!r} is {number}; give a finite number")
        return number
    nothing = "; leave a parameter without a value out" if value is None else ""
    kinds = "str, int, float, bool or a list of these"
    raise TypeError(f"the value of the parameter {name!r} must be {kinds}, not {type(value).__name__}{nothing}")


def _is_double(whole: int) -> bool:
    try:
        return int(float(whole)) == whole
    except OverflowError:
        return False


def checked_dialect(dialect: object) -> None:
    """Raises an error unless an argument names a dialect.

    Raises:
        TypeError: It is no string.
        InvalidContext: There is no such dialect.
    """
    if not isinstance(dialect, str):
        raise TypeError(f"dialect must be str, not {type(dialect).__name__}")
    if dialect not in DIALECTS:
        raise InvalidContext(f"dialect must be 'xpath', 'legacy', 'doubles' or 'xquery', not {dialect!r}")


def dialect_with_numbers(dialect: Dialect, numbers: object) -> Dialect:
    """Returns the dialect that reads numbers as an argument says.

    Raises:
        TypeError: The dialect is no string.
        InvalidContext: There is no such dialect, or it cannot read numbers so.
    """
    checked_dialect(dialect)
    if numbers is None:
        return dialect
    if numbers != "xs:double":
        raise InvalidContext(f"numbers must be 'xs:double' or None, not {numbers!r}")
    if dialect not in {"xpath", "doubles"}:
        raise InvalidContext(f"numbers='xs:double' is for the dialect 'xpath'; in {dialect!r} write xs:double(...)")
    return "doubles"


def as_record(values: Mapping[Any, Any]) -> Subscription:
    """Returns a record, or the row of a table, as a subscription.

    Raises:
        InvalidKey: It has no key, or one that is no string.
        QuerySyntaxError: It has no query, or one that is no string.
        InvalidContext: Its namespaces, its dialect or its group cannot be used.
    """
    try:
        return _checked(*map(values.get, COLUMNS))
    except InvalidKey as error:
        raise InvalidKey(error.key, _with_near(error.reason, "key", values)) from None
    except QuerySyntaxError as error:
        raise QuerySyntaxError(error.text, 1, _with_near(error.reason, "query", values)) from None


def _with_near(reason: str, column: str, values: Mapping[Any, Any]) -> str:
    """Returns why there is no key or no query in a record, with the name that may be meant to be it."""
    near = [not_read(*names) for names in similar_columns(values) if names[1] == column and values.get(column) is None]
    return "; ".join([reason, *near])


def similar_columns(columns: Iterable[object]) -> list[tuple[str, str]]:
    """Returns the names of columns that are not read, although they resemble one that would be; and that one."""
    names = [column for column in columns if isinstance(column, str)]
    unread = [column for column in names if column not in COLUMNS]
    if not unread:
        return []
    import difflib  # few programs need it, and all would wait for it when they start

    result = []
    for column in unread:
        near = difflib.get_close_matches(column.strip().lower(), COLUMNS, n=1, cutoff=0.75)
        if near and near[0] not in names:
            result.append((column, near[0]))
    return result


def not_read(column: str, near: str) -> str:
    """Returns what a warning says of a column that is not read."""
    return f"{column!r} is not read; was {near!r} meant?"


def _checked(
    key: object,
    query: object,
    namespaces: object,
    dialect: object,
    group: object,
    params: object,
    numbers: object = None,
) -> Subscription:
    if not isinstance(key, str):
        raise InvalidKey(_shown(key), _no_key(key))
    if not isinstance(query, str):
        what = "there is no query" if query is None else f"a query is a string, not {_a(query)}"
        raise QuerySyntaxError(_shown(query), 1, what)
    try:
        # A column of structures has a field for every prefix of any row; those that a row does not declare are null.
        if isinstance(namespaces, str | list):
            namespaces = parse_namespaces(namespaces)
        if isinstance(params, str):
            params = parse_params(params)
        declared = namespaces if not isinstance(namespaces, Mapping) else _without_nulls(namespaces)
        own = checked_namespaces(declared)
        if dialect is not None:
            checked_dialect(dialect)
        if group is not None:
            require_str(group, "group")
        # So has one of parameters.
        values = checked_params(params if not isinstance(params, Mapping) else _without_nulls(params))
        named = None if dialect is None else DIALECTS[cast("str", dialect)]
        if numbers is not None:
            named = dialect_with_numbers(named or "xpath", numbers)
    except TypeError as error:
        raise InvalidContext(str(error)) from None
    return Subscription(key, query, own, named, cast("str | None", group) or "", values)


def parse_params(written: str) -> dict[str, Any]:
    """Returns parameters that are written as a JSON object; none for an empty text.

    Raises:
        InvalidContext: They are not.
    """
    if not written.strip():
        return {}
    import json

    try:
        values = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InvalidContext(f'params must be a JSON object such as {{"kind": "storm"}}: {error}') from None
    if not isinstance(values, dict):
        raise InvalidContext(f'params must be a JSON object such as {{"kind": "storm"}}, not {written[:40]!r}')
    return values


def parse_namespaces(written: str | list[Any]) -> dict[str, str]:
    """Returns namespaces that are written as ``p=urn:p q=urn:q``, as a JSON object, or as a list of ``p=urn:p``.

    Raises:
        InvalidContext: They are written in none of these ways.
    """
    if isinstance(written, str) and written.lstrip().startswith("{"):
        import json

        try:
            declared = json.loads(written)
        except (ValueError, RecursionError) as error:
            raise InvalidContext(f"namespaces begin like JSON, and are none: {error}") from None
        return dict(declared)
    namespaces: dict[str, str] = {}
    for part in written.split() if isinstance(written, str) else written:
        if isinstance(part, tuple) and len(part) == 2:  # so pandas has maps of Arrow
            prefix, equals, uri = part[0], "=", part[1]
        else:
            prefix, equals, uri = part.rstrip(";,").partition("=") if isinstance(part, str) else ("", "", "")
        if not equals:
            example = 'p=urn:example, several with a space between them, or JSON such as {"p": "urn:example"}'
            raise InvalidContext(f"namespaces must be written as {example}, not {part!r}")
        if namespaces.setdefault(prefix, uri) != uri:
            raise InvalidContext(f"the prefix {prefix!r} stands for two namespaces")
    return namespaces


def _without_nulls(namespaces: Mapping[Any, Any]) -> dict[Any, Any]:
    return {prefix: uri for prefix, uri in namespaces.items() if uri is not None}


def _shown(value: object) -> str:
    return "" if value is None else str(value)


def _no_key(key: object) -> str:
    if key is None:
        return "there is no key"
    cure = "use str(key), and the same where matches are looked up" if isinstance(key, int | float) else "use a string"
    return f"a key is a string, not {_a(key)}; {cure}"


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


class SubscriptionReader:
    """A reader of subscriptions in any form: yields those that the engine can add, and keeps the others.

    Args:
        source: The subscriptions, as for :meth:`twigcast.SubscriptionSet.add_many`.

    Raises:
        TypeError: They are in none of the forms.
        MissingExtra: They are in an Arrow table, and pyarrow is not installed.
        ValueError: A table has no column of keys or of queries.
    """

    def __init__(self, source: Subscriptions) -> None:
        self.refused: list[RefusedSubscription] = []
        """Those that are no subscription that could be added."""
        self.warnings: list[SubscriptionWarning] = []
        """Records with a name that is not read although it resembles one that would be."""
        self._items = _items(source)

    def __iter__(self) -> Iterator[SubscriptionLike]:
        for index, item in enumerate(self._items):
            # Most are plain pairs, which the engine reads by itself.
            if type(item) is tuple and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str):
                yield item
                continue
            try:
                subscription = self._read(item, index)
            except TwigcastError as error:
                self.refused.append(RefusedSubscription(_as_written(item), error, index))
            else:
                yield subscription

    def _read(self, item: Any, index: int) -> Subscription:
        if isinstance(item, Mapping):
            subscription = as_record(item)
            near = [not_read(*names) for names in similar_columns(item)] if len(item) > 2 else []
            self.warnings += [SubscriptionWarning(subscription.key, index, text) for text in near]
            return subscription
        if isinstance(item, Subscription):
            return _checked(item.key, item.query, item.namespaces, item.dialect, item.group, item.params)
        if isinstance(item, tuple | list) and 2 <= len(item) <= _TUPLE_MAX:
            return _checked(*item, *[None] * (_TUPLE_MAX - len(item)))
        raise TypeError(_no_subscription(item, index))

    def index(self, accepted: int) -> int:
        """Returns the position among all of the one that was yielded at a position, counted from 0."""
        for refused in self.refused:
            if refused.index > accepted:
                break
            accepted += 1
        return accepted


def _no_subscription(item: object, index: int) -> str:
    what = f"{len(item)} items" if isinstance(item, tuple | list) else _a(item)
    return (
        f"item {index} is no subscription but {what}: pass a Subscription, a tuple of key, query and perhaps "
        "namespaces, a dialect, a group and params, or a dict with 'key' and 'query'"
    )


def _as_written(item: Any) -> Subscription:
    """Returns an item that is refused as a subscription, with strings in place of what is none."""
    if isinstance(item, Mapping):
        item = (item.get("key"), item.get("query"))
    elif isinstance(item, Subscription):
        item = (item.key, item.query)
    return Subscription(_shown(item[0]), _shown(item[1]))


# --- forms ------------------------------------------------------------------------------------------------------------


def _items(source: Any) -> Iterable[Any]:
    """Returns the items of subscriptions in any form."""
    if isinstance(source, Mapping):
        if _is_record(source):
            raise TypeError("this is one record, and many are expected: pass [record], or {key: query}")
        return (_by_key(key, value) for key, value in source.items())
    if isinstance(source, str | bytes | bytearray | memoryview | Subscription) or _is_pair(source):
        raise TypeError(f"subscriptions must be a mapping or a collection of subscriptions, not {_one(source)}")
    if hasattr(source, "itertuples") and hasattr(source, "columns"):
        return _pandas_rows(source)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _arrow_rows(source)
    if not isinstance(source, Iterable):
        raise TypeError(f"subscriptions must be a mapping, an iterable or a table, not {_a(source)}")
    return source


def _is_record(source: Mapping[Any, Any]) -> bool:
    """Returns whether a mapping is one record rather than queries by key: it names a query, and something beside it.

    Whoever has keys with these very names can still pass tuples.
    """
    names = {name.strip().lower() for name in source if isinstance(name, str)}
    return "query" in names and len(names & set(COLUMNS)) > 1


def _by_key(key: object, value: object) -> object:
    """Returns an item of a mapping: its value is a query, or a record without a key."""
    return {**value, "key": key} if isinstance(value, Mapping) else (key, value)


def _is_pair(source: object) -> bool:
    return isinstance(source, tuple) and len(source) in (2, 3) and all(isinstance(part, str) for part in source[:2])


def _one(source: object) -> str:
    return f"{_a(source)}: put it in a list" if isinstance(source, Subscription | tuple) else _a(source)


def _columns(names: Sequence[object]) -> list[str]:
    objection = objection_to(names)
    if objection is not None:
        raise ValueError(f"the table cannot be read: {objection}")
    return [column for column in COLUMNS if column in names]


def objection_to(columns: Sequence[object]) -> str | None:
    """Returns why a table with these columns holds no subscriptions: one is missing, or there are two of a name."""
    twice = [repr(column) for column in COLUMNS if columns.count(column) > 1]
    if twice:
        return f"there are several columns {' and '.join(twice)}; leave one"
    missing = [repr(column) for column in ("key", "query") if column not in columns]
    if not missing:
        return None
    near = [f"{column!r} may be meant to be {meant!r}" for column, meant in similar_columns(columns)]
    have = f"its columns are {', '.join(map(repr, columns))}" if columns else "it has none"
    return "; ".join([f"there is no column {' and no column '.join(missing)}", have, *near])


def _pandas_rows(frame: Any) -> Iterator[dict[str, object]]:
    """Yields the rows of a frame as pandas has it, with or without pyarrow."""
    columns = _columns(list(frame.columns))
    similar = [column for column, _ in similar_columns(frame.columns)]
    for values in zip(*(frame[column] for column in (*columns, *similar)), strict=True):
        # pandas marks what is missing by values that do not equal themselves, or are ambiguous.
        yield {c: None if _is_missing(v) else v for c, v in zip((*columns, *similar), values, strict=True)}


def _is_missing(value: object) -> bool:
    return (
        value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and value != value)
    )


def _arrow_rows(table: Any) -> Iterator[dict[str, object]]:
    try:
        import pyarrow as pa
    except ImportError as missing:
        raise MissingExtra("pyarrow", "arrow") from missing
    if hasattr(table, "__arrow_c_stream__"):
        batches: Iterable[Any] = pa.table(table).to_batches()
    else:
        batches = [pa.record_batch(table)]
    for batch in batches:
        columns = [*_columns(batch.schema.names), *(column for column, _ in similar_columns(batch.schema.names))]
        yield from batch.select(columns).to_pylist(maps_as_pydicts="lossy")
