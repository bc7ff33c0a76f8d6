"""Enriches messages of a source from look-up tables, before they are matched.

For each look-up, the values that its expression selects in a message are looked up in its table, and each row that is
found becomes an element at the end of the root, or of another element. Expressions are evaluated by an engine of their
own, as all queries are: within the limits of a query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from twigcast.broker.errors import DisallowedMessage, Invalid
from twigcast.broker.lookup_tables import LookupSettings, TableContent, of_stored_form, shown
from twigcast.broker.model import Source
from twigcast.broker.store.store import Store
from twigcast.engine.session import EngineSession
from twigcast.errors import MessageLimitExceeded, QueryError, RejectedMessage, TwigcastError
from twigcast.limits import Limits
from twigcast.message_expressions import MessageExpressions

_log = logging.getLogger("twigcast.broker")

VALUES_MAX: Final = 1_000
"""Values of one message that one look-up asks for; a message with more is rejected."""


class Insertion(NamedTuple):
    """Markup that takes the place of a part of a message, which is empty unless its element was."""

    start: int
    end: int
    markup: bytes


class EnrichedForms(NamedTuple):
    """A message with what was found for it, in the two forms in which it was."""

    sent: bytes
    xml: bytes
    added: int = 0
    """Rows that were found and added."""
    missed: int = 0
    """Values for which there was none."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A look-up with its table."""

    settings: LookupSettings
    table: TableContent
    elements: Sequence[tuple[int, str]]

    def rows(self, values: Iterable[str], declared: bool) -> tuple[bytes, list[str]]:
        """Returns the markup of the rows that are found, and the values for which there is none."""
        written: list[str] = []
        missed: list[str] = []
        s = self.settings
        # Names without a prefix would be in the default namespace of the message, if it has one.
        space = f" xmlns={quoteattr(s.namespace)}" if s.namespace or declared else ""
        for value in values:
            row = self.table.rows.get(value)
            if row is None:
                missed.append(value)
                continue
            cells = ((name, row[place]) for place, name in self.elements if place < len(row) and row[place])
            inner = "".join(f"<{name}>{_escaped(cell)}</{name}>" for name, cell in cells)
            written.append(f"<{s.element}{space}>{inner}</{s.element}>")
        return "".join(written).encode(), missed


class Enricher:
    """The look-ups of a source. Several threads may use it.

    Raises:
        Invalid: An expression is refused, or a table does not fit.
    """

    def __init__(self, lookups: Sequence[tuple[LookupSettings, TableContent]], limits: Limits) -> None:
        self._limits = limits
        self._lookups = [_Lookup(s, table, s.elements(table.columns)) for s, table in lookups]
        self._keys = MessageExpressions(limits)
        self._places = EngineSession.empty(limits, is_quiet=True)
        for index, (s, _) in enumerate(lookups):
            _add("key", partial(self._keys.add_values, str(index), s.key, s.namespaces))
            _add("at", partial(self._places.add, str(index), s.at, s.namespaces, "xpath"))

    def enriched(self, sent: bytes, xml: bytes) -> EnrichedForms:
        """Returns a message with what is found for it.

        ``sent`` is it with spaces where its DOCTYPE stood, and ``xml`` without those. A message that is not well-formed
        comes back as it is: whoever matches it says what is wrong.

        Raises:
            RejectedMessage: It does not have what the settings of its source demand, or becomes too long.
        """
        try:
            values = self._values(sent)
        except DisallowedMessage:
            raise
        except RejectedMessage:
            return EnrichedForms(sent, xml)
        declared = b"xmlns=" in sent
        insertions: list[Insertion] = []
        found = missed = 0
        for index, lookup in enumerate(self._lookups):
            markup, without = lookup.rows(values[index], declared)
            missed += len(without)
            found += len(values[index]) - len(without)
            if lookup.settings.missing == "reject" and (without or not values[index]):
                raise _missing(lookup.settings, without)
            if markup:
                insertions.append(self._insertion(sent, str(index), markup))
        if not insertions:
            return EnrichedForms(sent, xml, found, missed)
        size = len(xml) + sum(len(one.markup) for one in insertions)
        if size > self._limits.message_bytes_max:
            most = self._limits.message_bytes_max
            raise MessageLimitExceeded("message_bytes_max", most, "the message is too long with what was looked up")
        shift = len(sent) - len(xml)
        return EnrichedForms(_with(sent, insertions, 0), _with(xml, insertions, shift), found, missed)

    def _values(self, sent: bytes) -> list[list[str]]:
        """Returns the values that each look-up asks for, each once, in order."""
        read = self._keys.read(sent)
        for undecided in read.undecided:
            settings = self._lookups[int(undecided.key)].settings
            raise DisallowedMessage(
                None, None, f"its key for the table {shown(settings.table)} is not known: {undecided.reason}"
            )
        results: list[list[str]] = [[] for _ in self._lookups]
        for key in read.held:
            values = results[int(key)] = list(dict.fromkeys(read.of(key)))
            if len(values) > VALUES_MAX:
                table = shown(self._lookups[int(key)].settings.table)
                raise DisallowedMessage(
                    None, None, f"it has {len(values):,} keys for the table {table}, of up to {VALUES_MAX:,}"
                )
        return results

    def _insertion(self, sent: bytes, key: str, markup: bytes) -> Insertion:
        nodes = self._places.nodes(sent, key)
        node = next((node for node in nodes if node.kind == "element"), None)
        if node is None:
            at = self._lookups[int(key)].settings.at
            raise DisallowedMessage(None, None, f"it has no element {at[:100]!r}, where what is looked up is added")
        if sent[node.end - 2 : node.end] == b"/>":
            return Insertion(node.end - 2, node.end, b">%b</%b>" % (markup, node.name.encode()))
        end_tag = sent.rindex(b"</", node.start, node.end)
        return Insertion(end_tag, end_tag, markup)


def check_expressions(settings: LookupSettings) -> None:
    """Raises Invalid unless the expressions of a look-up can be used. Blocks."""
    table = TableContent("", tuple(settings.columns), {})
    Enricher([(settings, table)], Limits())


def _add(part: str, add: Callable[[], object]) -> None:
    """Adds an expression, that of a part of a look-up; raises Invalid if it is refused."""
    try:
        add()
    except QueryError as error:
        raise Invalid(f"{part}: {error}") from error
    except TwigcastError as error:
        raise Invalid(f"namespaces: {error}") from error


def _with(message: bytes, insertions: Sequence[Insertion], shift: int) -> bytes:
    """Returns a message with markup added; its places are ``shift`` bytes further on than they say.

    Several for one element that was empty come into it together.
    """
    by_place: dict[tuple[int, int], list[bytes]] = {}
    for start, end, markup in insertions:
        by_place.setdefault((start - shift, end - shift), []).append(markup)
    parts: list[bytes] = []
    last = 0
    for (start, end), markups in sorted(by_place.items()):
        parts.append(message[last:start])
        parts.append(_joined(markups) if start < end else b"".join(markups))
        last = end
    return b"".join([*parts, message[last:]])


def _joined(markups: Sequence[bytes]) -> bytes:
    """Returns several contents of one element, each with what closes its tag and with its end tag."""
    end_tag = markups[0][markups[0].rindex(b"</") :]
    return b">" + b"".join(markup[1 : -len(end_tag)] for markup in markups) + end_tag


def _missing(settings: LookupSettings, without: Sequence[str]) -> DisallowedMessage:
    table = shown(settings.table)
    if without:
        return DisallowedMessage(None, None, f"the table {table} has no row {shown(without[0])} (missing: reject)")
    return DisallowedMessage(None, None, f"it has no key for the table {table} (missing: reject)")


def _escaped(text: str) -> str:
    return escape(text, {"\r": "&#13;"})


class SourceLookups:
    """The look-ups of all sources, with the tables that these use."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._tables: dict[tuple[int, str], tuple[int, TableContent]] = {}
        """The tables in use, by tenant and name, with their versions."""

    def of(self, sources: Iterable[Source]) -> dict[int, Callable[[bytes, bytes], EnrichedForms]]:
        """Returns what enriches the messages of each source that has look-ups, by its number, as of now. Blocks."""
        before, self._tables = self._tables, {}
        results: dict[int, Callable[[bytes, bytes], EnrichedForms]] = {}
        for source in sources:
            if not source.lookups:
                continue
            try:
                lookups = [LookupSettings.of(one) for one in source.lookups]
                chosen = [(one, self._table(source.tenant_id, one.table, before)) for one in lookups]
                results[source.id] = Enricher(chosen, self._limits).enriched
            except Invalid as error:
                # They were checked when they were stored; limits or versions have changed. Subscribers are not to get
                # messages that lack what they ask for.
                reason = f"the look-ups of its source cannot be used: {error}"
                _log.error("source %s: %s", source.name, reason)
                results[source.id] = partial(_refuse, reason)
        return results

    def _table(
        self, tenant_id: int, name: str, before: Mapping[tuple[int, str], tuple[int, TableContent]]
    ) -> TableContent:
        place = tenant_id, name
        known = self._tables.get(place) or before.get(place)
        summary = self._store.lookup_table(tenant_id, name)
        if known is None or summary is None or summary.version != known[0]:
            stored = self._store.lookup_content(tenant_id, name)
            if stored is None:
                raise Invalid(f"there is no table {shown(name)}")
            known = stored[0], of_stored_form(stored[1])
        self._tables[place] = known
        return known[1]


def _refuse(reason: str, sent: bytes, xml: bytes) -> EnrichedForms:
    raise DisallowedMessage(None, None, reason)
