"""Windows in the broker: when a subscription is told, and of what.

All of it is in the transaction that stores the message: states are read from the store and written to it, and nothing
is kept in memory. So a broker that is killed goes on exactly where its last commit was. What no publisher has written,
digests and notes of absence, is stored as a message of the broker's own, which only its subscriber gets.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from twigcast.broker.hub.commit import CommitGroup, Operation, PublishedMessage
from twigcast.broker.hub.overflow import count_pending
from twigcast.broker.hub.population import Evaluation, RegisteredSubscription
from twigcast.broker.hub.retention import RetentionClock
from twigcast.broker.hub.upkeep import every
from twigcast.broker.model import ErrorRecord, NewDelivery, StoredMessage
from twigcast.broker.store.messages import WINDOW_SOURCE
from twigcast.broker.store.windows import KeptMessage, WindowAddress
from twigcast.errors import QueryError, RejectedMessage
from twigcast.lifecycle.chains import Relation
from twigcast.windows.declarations import Window, WindowKind
from twigcast.windows.documents import DigestEntry, absence_document, digest_document
from twigcast.windows.expressions import MessageValues, RegisteredWindow
from twigcast.windows.results import change_params, changed_result, values_of_change
from twigcast.windows.states import Action, WindowOutput, WindowState, WindowStep, begin, due, step

logger = logging.getLogger(__name__)

DUE_AT_ONCE: Final = 1_000
"""Number of keys for which something is due that are dealt with in one commit; publications go on in between."""

DUE_SECONDS: Final = 1.0
"""Time between two looks at what is due."""


class WindowResult(NamedTuple):
    """A result that a subscription gets of a message now."""

    payload: bytes | None
    note: str


class WindowedEvaluation(NamedTuple):
    """The subscriptions that get a message now."""

    evaluation: Evaluation
    relations: Sequence[Relation | None] | None
    notes: Sequence[str | None] | None
    """Of which messages each is told; ``None`` if no window concerns the message."""


class _WindowDocument(NamedTuple):
    """Something that the broker tells by itself."""

    address: WindowAddress
    window: Window
    output: WindowOutput
    tenant_id: int


class ReplayedMessage(NamedTuple):
    """A stored message that concerns the window of a subscription."""

    message: StoredMessage
    payload: bytes | None
    values: MessageValues
    registered: RegisteredWindow
    is_first: bool


@dataclass(slots=True)
class WindowRun:
    """The windows during one operation, or one run of publishing."""

    _group: CommitGroup
    _states: dict[WindowAddress, WindowState | None] = field(init=False, default_factory=dict)
    _changed: dict[WindowAddress, None] = field(init=False, default_factory=dict)
    _kept: list[KeptMessage] = field(init=False, default_factory=list)
    _documents: list[_WindowDocument] = field(init=False, default_factory=list)
    _errors: list[ErrorRecord] = field(init=False, default_factory=list)

    # Messages

    def enter(
        self,
        message: StoredMessage,
        evaluation: Evaluation,
        values: MessageValues | None,
        relations: Sequence[Relation | None] | None,
    ) -> WindowedEvaluation:
        """Returns who gets a message now, and remembers what of it counts later."""
        table = self._group.population.of(message.tenant_id).windows
        numbers = evaluation.numbers
        mine = [number for number in numbers if number in table] if len(table) else []
        if values is None and not mine:
            return WindowedEvaluation(evaluation, relations, None)
        if values is None:
            # Who follows a message gets it though its query does not match.
            values = table.read(message.with_ids, mine)
            assert values is not None, "one of them has a window"
        matching = set(numbers)
        seconds = [number for number in table.second_for(values) if number not in matching]
        if not mine and not seconds:
            return WindowedEvaluation(evaluation, relations, None)
        payloads = dict(zip(numbers, evaluation.payloads or (), strict=False))
        outcomes = self._step_all(message, [*mine, *seconds], frozenset(seconds), values, payloads)
        return self._answer(message, evaluation, relations, outcomes, frozenset(mine))

    def _step_all(
        self,
        message: StoredMessage,
        numbers: Sequence[int],
        seconds: frozenset[int],
        values: MessageValues,
        payloads: Mapping[int, bytes | None],
    ) -> dict[int, WindowResult]:
        """Lets a message count for subscriptions; returns what those get that are told of it now."""
        table = self._group.population.of(message.tenant_id).windows
        replaying = self._group.transaction.replaying(numbers)
        events = []
        for number in numbers:
            registered = table.get(number)
            # Who gets stored messages first gets this one as such, too.
            if registered is None or number in replaying:
                continue
            events.append((number, registered, payloads.get(number), number not in seconds))
        return self.step(message, events, values)

    def step(
        self,
        message: StoredMessage,
        events: Sequence[tuple[int, RegisteredWindow, bytes | None, bool]],
        values: MessageValues,
    ) -> dict[int, WindowResult]:
        """Lets a message count for subscriptions, each with its window, its result, and whether its query matches.

        Returns what those get that are told of it now.
        """
        keyed = []
        for number, registered, payload, is_first in events:
            size = len(message.xml if payload is None else payload)
            key, event, trouble = values.event(registered, message.seq, message.received, is_first=is_first, size=size)
            if trouble is not None:
                self._tell(number, trouble, message.seq)
            if key is not None:
                keyed.append(((number, key), registered.window, event, payload))
        self._load([address for address, *_ in keyed])
        told: dict[int, WindowResult] = {}
        for address, window, event, payload in keyed:
            after = step(window, self._states[address], event)
            if after.is_late:
                self._group.counted.window_late += 1
                self._tell(address[0], "it came too late to count for the window", message.seq)
            at = min(event.at, event.arrived)
            outputs = []
            for output in self._carry_out(address, window, after, message.tenant_id):
                if output.action is Action.KEEP:
                    assert output.bucket is not None, "it is kept for a digest"
                    self._kept.append(
                        KeptMessage(*address, output.bucket, message.seq, message.message_id, at, payload)
                    )
                else:
                    outputs.append(output)
            if outputs:
                # A message may be the end of one pair and the beginning of another one.
                handles = dict.fromkeys(handle for output in outputs for handle in output.stands_for)
                output = outputs[0]._replace(stands_for=tuple(handles))
                result = self._result(address[0], output, message, payload)
                told[address[0]] = WindowResult(result, _note_text(window, address[1], output))
        return told

    def replay(self, member: RegisteredSubscription, messages: Sequence[ReplayedMessage]) -> list[NewDelivery]:
        """Lets stored messages count for a subscription; returns what it is told of."""
        deliveries = []
        for one in messages:
            event = member.id, one.registered, one.payload, one.is_first
            for number, (payload, text) in self.step(one.message, [event], one.values).items():
                deliveries.append(NewDelivery(member.queue_id, one.message.seq, number, payload, None, text))
        return deliveries

    def _result(self, number: int, output: WindowOutput, message: StoredMessage, payload: bytes | None) -> bytes | None:
        """Returns the result that a subscription gets, with the values of a change where its query uses them."""
        if payload is None or output.old is None or output.new is None:
            return payload
        member = self._member(message.tenant_id, number)
        if member is None:
            return payload
        query = member.as_query()
        used = change_params(member.window, query)
        if not used:
            return payload
        values, limits = values_of_change(used, output.old, output.new), self._group.options.limits
        try:
            return changed_result(query, values, message.with_ids, arrived=message.received, limits=limits) or payload
        except (QueryError, RejectedMessage) as error:
            self._tell(number, f"$old and $new could not be put into the result: {error}", message.seq)
            return payload

    def _answer(
        self,
        message: StoredMessage,
        evaluation: Evaluation,
        relations: Sequence[Relation | None] | None,
        outcomes: dict[int, WindowResult],
        windowed: frozenset[int],
    ) -> WindowedEvaluation:
        """Returns the evaluation without those whom a window keeps waiting, and with those whom it tells."""
        rows = []
        for position, number in enumerate(evaluation.numbers):
            payload = None if evaluation.payloads is None else evaluation.payloads[position]
            told = None
            if number in windowed:
                if number not in outcomes:
                    continue
                payload, told = outcomes[number]
            queue_id = evaluation.queues[position]
            relation = None if relations is None else relations[position]
            is_pushed = queue_id in evaluation.pushed
            rows.append((number, queue_id, evaluation.keys[position], payload, told, relation, is_pushed))
        population = self._group.population.of(message.tenant_id)
        others = [number for number in outcomes if number not in windowed]
        for number, (queue_id, key, is_pushed) in population.recipients(others).items():
            rows.append((number, queue_id, key, *outcomes[number], None, is_pushed))
        rows.sort(key=lambda row: row[0])
        payloads = [row[3] for row in rows]
        changed = Evaluation(
            evaluation.revision,
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            {row[1] for row in rows if row[6]},
            payloads if any(payload is not None for payload in payloads) else None,
            evaluation.undecided,
            evaluation.error,
        )
        return WindowedEvaluation(changed, [row[5] for row in rows], [row[4] for row in rows])

    def _tell(self, number: int, reason: str, seq: int) -> None:
        self._errors.append(ErrorRecord(number, self._group.now, reason, seq))

    # Time

    def begin(self, member: RegisteredSubscription, at: float) -> None:
        """Begins the window of a subscription."""
        state = None if member.window is None else begin(member.window, at)
        if state is not None:
            self._set((member.id, ""), state)

    def due(self, address: WindowAddress, window: Window, state: WindowState, tenant_id: int, now: float) -> None:
        """Does what is due for one key."""
        self._states[address] = state
        self._carry_out(address, window, due(window, state, now), tenant_id)

    def _load(self, addresses: Sequence[WindowAddress]) -> None:
        missing = [address for address in addresses if address not in self._states]
        if missing:
            found = self._group.transaction.windows_at(missing)
            self._states.update((address, found.get(address)) for address in missing)

    def _set(self, address: WindowAddress, state: WindowState | None) -> None:
        if self._states.get(address) != state or address not in self._states:
            self._states[address] = state
            self._changed[address] = None

    def _carry_out(
        self, address: WindowAddress, window: Window, after: WindowStep, tenant_id: int
    ) -> list[WindowOutput]:
        """Does what follows without a message at hand; returns the rest."""
        self._set(address, after.state)
        rest = []
        for output in after.outputs:
            if output.action in (Action.ABSENT, Action.RELEASE):
                self._documents.append(_WindowDocument(address, window, output, tenant_id))
            else:
                rest.append(output)
        return rest

    def _written(self, one: _WindowDocument) -> tuple[bytes, str]:
        """Returns a document that the broker tells by itself, and of which messages it tells."""
        address, output, transaction = one.address, one.output, self._group.transaction
        if output.action is Action.ABSENT:
            assert output.since is not None, "silence has a beginning"
            last = transaction.message_id(int(output.stands_for[0])) if output.stands_for else None
            xml = absence_document(address[1], output.since, output.at, last)
            return xml, _note_text(one.window, address[1], output)
        bucket = output.bucket
        assert bucket is not None, "it is a digest"
        taken = transaction.take_kept(address, bucket)
        entries = [DigestEntry(k.message_id, k.at, body, is_result) for k, body, is_result in taken if body is not None]
        missing, end = len(taken) - len(entries), bucket.start + one.window.seconds
        xml = digest_document(address[1], bucket.start, end, entries, part=bucket.part, missing=missing)
        output = output._replace(stands_for=tuple(kept.seq for kept, *_ in taken))
        return xml, _note_text(one.window, address[1], output)

    def _member(self, tenant_id: int, number: int) -> RegisteredSubscription | None:
        return self._group.population.of(tenant_id).member(tenant_id, number)

    # The end

    def finish(self) -> None:
        """Stores what is known now, and what the broker tells by itself; the messages of the run are stored."""
        transaction = self._group.transaction
        if self._kept:
            transaction.keep_messages(self._kept)
        if self._changed:
            transaction.set_windows([(address, self._states[address]) for address in self._changed])
        if self._errors:
            transaction.add_errors(self._errors)
        published: list[PublishedMessage] = []
        for one in self._documents:
            member = self._member(one.tenant_id, one.address[0])
            if member is not None:
                published.append(self._published(one, member, transaction.next_seq() + len(published)))
        if published:
            self._store(published)

    def _published(self, one: _WindowDocument, member: RegisteredSubscription, seq: int) -> PublishedMessage:
        xml, told = self._written(one)
        about = seq, one.tenant_id, WINDOW_SOURCE, uuid.uuid4().hex, self._group.now
        message = StoredMessage(*about, xml, matches=1)
        if member.pushed:
            self._group.result.pushed.add(member.queue_id)
        return PublishedMessage(message, [NewDelivery(member.queue_id, seq, member.id, None, None, told)], [member.key])

    def _store(self, published: Sequence[PublishedMessage]) -> None:
        group = self._group
        group.transaction.add_messages([one.message for one in published])
        deliveries = [delivery for one in published for delivery in one.deliveries]
        group.urgencies.update(group.transaction.add_deliveries(deliveries))
        group.result.last_seq = published[-1].message.seq
        group.counted.deliveries += len(published)
        group.counted.window_documents += len(published)
        group.published += published
        count_pending(group, published)


def _note_text(window: Window, key: str, output: WindowOutput) -> str:
    """Returns of which messages a window tells, as deliveries say it."""
    about: dict[str, object] = {"kind": window.kind.value, "key": key, "messages": list(output.stands_for)}
    if output.old is not None:
        about |= {"old": output.old, "new": output.new}
    return json.dumps(about, ensure_ascii=False, separators=(",", ":"))


def restart(group: CommitGroup, member: RegisteredSubscription) -> None:
    """Forgets all that is known for the window of a subscription, and begins it anew, if there is one."""
    group.transaction.forget_windows(member.id)
    run = WindowRun(group)
    run.begin(member, group.now)
    run.finish()


def resume(group: CommitGroup, member: RegisteredSubscription, *, has_all: bool) -> None:
    """Lets the window of a subscription go on that takes part again, perhaps with all that it has missed."""
    assert member.window is not None, "it has one"
    if member.window.kind is WindowKind.ABSENCE and not has_all:
        # Silence while it took no part was none.
        restart(group, member)
    else:
        group.transaction.release_windows(member.id)


@dataclass(eq=False)
class TellDue(Operation):
    """A look at what is due for the windows of tenants. Results in how many keys were dealt with.

    It comes in the order of publications: those before it came before its time, and those after it later.
    """

    tenants: Sequence[int]
    clock: RetentionClock
    """While it is in doubt, nothing is due."""

    def __post_init__(self) -> None:
        self.tenant_ids = tuple(tenant_id for tenant_id in self.tenants if tenant_id)

    def apply(self, group: CommitGroup) -> None:
        """Changes the store."""
        now = self.clock.even_now(group.transaction)
        self.result = 0
        if now is None:
            return
        run, held, gone = WindowRun(group), [], []
        for stored, tenant_id, takes_part in group.transaction.due_windows(now, DUE_AT_ONCE):
            address = stored.subscription_id, stored.window_key
            if tenant_id is None:
                gone.append((address, None))
                continue
            registered = group.population.of(tenant_id).windows.get(stored.subscription_id)
            if not takes_part or registered is None:
                held.append(address)
            elif tenant_id in self.tenant_ids:
                run.due(address, registered.window, stored.state, tenant_id, now)
            else:
                continue
            self.result += 1
        group.transaction.set_windows(gone)
        group.transaction.hold_windows(held)
        run.finish()


@dataclass(eq=False)
class WindowUpkeep:
    """Tells subscribers what is due though no message comes."""

    _due_tenants: Callable[[float, int], Awaitable[list[int]]]
    """Returns the tenants for whose windows something is due."""
    _do: Callable[[Operation], Awaitable[Any]]
    clock: RetentionClock

    async def run(self) -> None:
        """Runs until cancelled."""
        await every(DUE_SECONDS, self.once, logger, "what is due for windows is told later")

    async def once(self) -> None:
        """Tells what is due now."""
        while tenants := await self._due_tenants(self.clock.state().now, DUE_AT_ONCE):
            if await self._do(TellDue(tenants, self.clock)) < DUE_AT_ONCE:
                return
