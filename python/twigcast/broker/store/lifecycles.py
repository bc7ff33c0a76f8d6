"""Chains of messages that update and cancel each other, and what is owed to subscriptions that are behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from twigcast.broker.store.database import INTEGER_MAX, DatabaseSession, Reads, Row, Writes, chunks
from twigcast.lifecycle.chains import Chain, ChainState, Relation
from twigcast.lifecycle.records import chain_record, read_chain

_NAMES_AT_ONCE = 1_000


class StoredChain(NamedTuple):
    """A chain as it is stored, with its number."""

    id: int
    tenant_id: int
    profile: str
    """The name of the profile."""
    chain: Chain[int]
    withdraws: bool
    """Whether expired messages are withdrawn."""


class Owed(NamedTuple):
    """A message that a subscription gets with its replay, although the message does not match."""

    subscription_id: int
    seq: int
    relation: Relation


def _stored(row: Row) -> StoredChain:
    number, tenant_id, profile, text, withdraws = row
    return StoredChain(number, tenant_id, profile, read_chain(json.loads(text)), bool(withdraws))


def _by_name(session: DatabaseSession, tenant_id: int, profile: str, names: Sequence[str]) -> list[StoredChain]:
    numbers: set[int] = set()
    for some in chunks(names, _NAMES_AT_ONCE):
        rows = session.rows(
            "SELECT DISTINCT chain_id FROM chain_names WHERE tenant_id = ? AND profile = ? "
            f"AND {session.among('name', 'text')}",
            (tenant_id, profile, session.values(some)),
        )
        numbers.update(number for (number,) in rows)
    if not numbers:
        return []
    rows = session.rows(
        f"SELECT id, tenant_id, profile, chain, withdraws FROM chains WHERE {session.among('id')} ORDER BY id",
        (session.values(sorted(numbers)),),
    )
    return [_stored(row) for row in rows]


class LifecycleReads(Reads):
    """Reading methods for chains."""

    def chains(self, tenant_id: int, profile: str, names: Sequence[str]) -> list[StoredChain]:
        """Returns the chains to which names lead."""
        return self.database.read(lambda session: _by_name(session, tenant_id, profile, names))

    def relations(self, tenant_id: int, seqs: Sequence[int], limit: int) -> list[tuple[int, str, Relation | None]]:
        """Returns who has or had a delivery of messages, by sequence number and key, and what it is to it."""

        def work(session: DatabaseSession) -> list[Row]:
            return session.rows(
                "SELECT d.seq, s.key, d.relation FROM deliveries d JOIN subscriptions s ON s.id = d.subscription_id "
                f"WHERE {session.among('d.seq')} AND s.tenant_id = ? ORDER BY d.seq, s.key LIMIT ?",
                (session.values([seq for seq in seqs if seq <= INTEGER_MAX]), tenant_id, limit),
            )

        rows = self.database.read(work)
        return [(seq, key, None if relation is None else Relation(relation)) for seq, key, relation in rows]


class LifecycleWrites(Writes):
    """Changing methods for chains."""

    def chains(self, tenant_id: int, profile: str, names: Sequence[str]) -> list[StoredChain]:
        """Returns the chains to which names lead, after all changes before this one."""
        return _by_name(self.session, tenant_id, profile, names)

    def replace_chains(
        self, before: Sequence[StoredChain], chain: Chain[int], *, tenant_id: int, profile: str, withdraws: bool
    ) -> None:
        """Stores a chain in the place of others."""
        number = before[0].id if before else self.counters.take("chain")
        known = set(before[0].chain.names) if len(before) == 1 else set()
        self._forget([one.id for one in before], names=len(before) != 1)
        text = json.dumps(chain_record(chain), ensure_ascii=False)
        ends = chain.expires if chain.state is ChainState.IN_FORCE else None
        row = (number, tenant_id, profile, text, chain.keep_from, ends, int(withdraws))
        self.session.insert("chains", ("id", "tenant_id", "profile", "chain", "keep_from", "ends", "withdraws"), [row])
        new = [name for name in chain.names if name not in known]
        self.session.many(
            "INSERT INTO chain_names (tenant_id, profile, name, chain_id) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (tenant_id, profile, name) DO UPDATE SET chain_id = excluded.chain_id",
            [(tenant_id, profile, name, number) for name in new],
        )
        if gone := known - set(chain.names):
            self.session.many(
                "DELETE FROM chain_names WHERE tenant_id = ? AND profile = ? AND name = ?",
                [(tenant_id, profile, name) for name in sorted(gone)],
            )

    def _forget(self, numbers: Sequence[int], *, names: bool = True) -> None:
        if not numbers:
            return
        values = (self.session.values(numbers),)
        self.session.execute(f"DELETE FROM chains WHERE {self.session.among('id')}", values)
        if names:
            self.session.execute(f"DELETE FROM chain_names WHERE {self.session.among('chain_id')}", values)

    def ended_chains(self, at: float, limit: int) -> list[StoredChain]:
        """Returns chains that are in force and have expired, those that ended first first."""
        rows = self.session.rows(
            "SELECT id, tenant_id, profile, chain, withdraws FROM chains WHERE ends IS NOT NULL AND ends <= ? "
            "ORDER BY ends LIMIT ?",
            (at, limit),
        )
        return [_stored(row) for row in rows]

    def forget_chains(self, before: float, limit: int) -> int:
        """Forgets chains that have not changed since a time, and returns how many."""
        rows = self.session.rows(
            "SELECT id FROM chains WHERE keep_from < ? ORDER BY keep_from LIMIT ?", (before, limit)
        )
        self._forget([number for (number,) in rows])
        return len(rows)

    def add_owed(self, owed: Iterable[Owed]) -> None:
        """Stores what subscriptions are to get with their replay."""
        self.session.insert("owed", ("subscription_id", "seq", "relation"), owed, keep_existing=True)

    def take_owed(self, subscription_id: int, first_seq: int, before_seq: int | None) -> list[Owed]:
        """Returns what a subscription is to get of a range of messages (``None``: up to the last), and removes it."""
        end = INTEGER_MAX if before_seq is None else before_seq
        condition, params = "subscription_id = ? AND seq >= ? AND seq < ?", (subscription_id, first_seq, end)
        rows = self.session.rows(
            f"SELECT subscription_id, seq, relation FROM owed WHERE {condition} ORDER BY seq", params
        )
        if rows:
            self.session.execute(f"DELETE FROM owed WHERE {condition}", params)
        return [Owed(number, seq, Relation(relation)) for number, seq, relation in rows]
