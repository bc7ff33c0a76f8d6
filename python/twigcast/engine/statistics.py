"""Counts what the structures of an engine come to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counts of the structures that the subscriptions of a set share, and their sizes in bytes."""

    subscriptions: int
    contexts: int
    """Different settings (namespaces, dialect and parameters) of subscriptions."""
    queries: int
    """Different queries."""
    recent_queries: int
    """Queries in the recent segment of the index."""
    dead_queries: int
    """Removed queries that stay in the main segment until it is merged."""
    nfa_states: int
    nfa_bytes: int
    twigs: int
    branches: int
    branch_bytes: int
    triggers: int
    crowded_states: int
    """States whose triggers are looked up in a table."""
    accesses: int
    """Queries that values lead to, counted by path."""
    access_bytes: int
    conditions: int
    """Different conditions that these verify."""
    groups: int
    """Groups that subscriptions were given."""
    unread_numbers: int
    """How often a comparison has read a value with an exponent as no number, as XPath 1.0 does."""
    throttled: int
    """Different queries that are set aside: see :meth:`twigcast.SubscriptionSet.throttled`."""
    evaluated_always: int
    """Queries that are evaluated on each message."""
    condition_bytes: int
    atom_bytes: int
    registry_bytes: int
    """Bytes of keys, query texts and subscribers."""
    compiled_bytes: int
    matchers: int
    """Matchers that no thread uses now; each has caches of its own."""
    cache_bytes: int
    cache_overflows: int
    """How often the caches of a matcher were full and had to be emptied."""
    dfa_states: int
