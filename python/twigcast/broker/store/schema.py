"""The tables, and how older stores become current ones.

Each migration is a list of statements that lead from one version to the next, in one transaction; released ones
are never edited. Words in braces differ between the databases.

Why the tables are as they are:

- ``lanes`` are the queues, one for each subscriber.
- ``deliveries`` is clustered by lane, sequence number and subscription, so that reading a queue is reading one range.
  An index by sequence number finds the deliveries of an expired message; it only ever grows at its end.
- ``set_aside`` names the deliveries that are pending below the mark of their queue, such as one that a
  subscriber never acknowledges while it goes on with others. Without it every read of the queue would pass over all
  later ones.
- ``messages`` holds each body once. Its index by tenant also holds the columns that replay by time and listings read,
  so that they need not touch the bodies.
- ``payloads`` holds results that several deliveries of a message share; ``shared`` of a delivery is their
  number. A result of one delivery alone lies in its own row.
- ``pauses`` has a row for each pause of a query in XQuery that it has not passed yet: the messages from the first to
  the last do not count for it. A pause that lasts has no last message.
- ``push_attempts`` has a row for each queue whose first delivery could not be pushed so far.
- ``leases`` has a row for each delivery of a shared queue that a worker has or had, until it is acknowledged: how often
  it was handed out, the time up to which nobody else gets it, ``seconds`` after it was set, and whether a worker holds
  it or it is delayed. ``sharing`` of a lane
  holds the settings of a shared queue as JSON.
- ``counters`` assigns ids. They are never used again, even after the newest row was removed. ``forgotten`` is the
  highest sequence number that retention has removed. ``access`` grows when tokens or limits of tenants change.
  ``clock`` is the time that retention went by last, in whole seconds since the epoch (0: none yet).
- ``chains`` has a row for each matter of a profile: the messages that update and cancel each other, and who has them.
  ``chain_names`` leads to it from the identities of messages. ``ends`` is when it expires, while it is in force.
- ``owed`` names messages that subscriptions are to get with their replay though these do not match: updates and ends of
  what they got, which came while too much waited for them.
- ``window_states`` has a row for each key of a window of which something is known. ``due`` is when something is to be
  done; rows of subscriptions that take no part for now are ``held``, so that nobody passes over them every second.
- ``kept_messages`` names the messages of digests that are not sent yet. ``payload`` is the result of a query, or the
  message once retention has removed it.
- ``deliveries``: ``priority`` is set while a delivery waits in a queue whose most urgent one is next, ``due`` then and
  where it is not that of the message alone. ``drops`` is 1 until it is known what has become of a delivery that is
  dropped when it is late.
- ``overlay_origins`` has a row for each message that came from another broker of an overlay, none for the broker's own:
  a broker without an overlay writes nothing there. ``overlay_records`` is small: sources, and a log of changes to them.
"""

from __future__ import annotations

import secrets
from typing import Final

from twigcast.broker.errors import StoreDamaged
from twigcast.broker.store.database import DatabaseSession

WORDS: Final = {
    "sqlite": {
        "int": "INTEGER",
        "real": "REAL",
        "blob": "BLOB",
        "text": "TEXT",
        "key": "TEXT",
        "clustered": "WITHOUT ROWID",
    },
    "postgresql": {
        "int": "bigint",
        "real": "double precision",
        "blob": "bytea",
        "text": "text",
        # Keys sort by code point in both databases, whatever the locale of the server.
        "key": 'text COLLATE "C"',
        "clustered": "",
    },
}

COUNTERS: Final = (
    "bytes",
    "dead_letter",
    "error",
    "lane",
    "rejected",
    "seq",
    "source",
    "subscription",
    "tenant",
    "token",
)
"""``bytes`` sums the bodies of accepted and rejected messages; the others are the last id assigned."""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    # 1: the first version
    (
        "CREATE TABLE counters (name {key} PRIMARY KEY, value {int} NOT NULL)",
        "CREATE TABLE tenants (id {int} PRIMARY KEY, name {key} NOT NULL UNIQUE, limits {text} NOT NULL)",
        """CREATE TABLE tokens (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, name {text} NOT NULL, scopes {text} NOT NULL,
            digest {blob} NOT NULL UNIQUE, created {real} NOT NULL)""",
        """CREATE TABLE sources (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, name {key} NOT NULL, kind {text} NOT NULL, url {text},
            interval {real} NOT NULL, dtd {text}, paused {int} NOT NULL, state {text} NOT NULL,
            UNIQUE (tenant_id, name))""",
        """CREATE TABLE messages (
            seq {int} PRIMARY KEY, tenant_id {int} NOT NULL, source {key} NOT NULL, message_id {key} NOT NULL,
            received {real} NOT NULL, size {int} NOT NULL, matches {int} NOT NULL, xml {blob} NOT NULL)""",
        "CREATE UNIQUE INDEX messages_by_id ON messages (tenant_id, message_id, source)",
        "CREATE INDEX messages_of_tenant ON messages (tenant_id, seq, received, size, source)",
        "CREATE INDEX messages_by_time ON messages (received)",
        """CREATE TABLE rejected (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, source {key} NOT NULL, message_id {text},
            received {real} NOT NULL, code {text} NOT NULL, reason {text} NOT NULL, line_number {int},
            column_number {int}, size {int} NOT NULL, body {blob} NOT NULL)""",
        "CREATE INDEX rejected_of_tenant ON rejected (tenant_id, id)",
        "CREATE INDEX rejected_by_time ON rejected (received)",
        """CREATE TABLE lanes (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, subscriber {key} NOT NULL, kind {text} NOT NULL,
            acked {int} NOT NULL, replay_next {int}, UNIQUE (tenant_id, subscriber))""",
        """CREATE TABLE deliveries (
            lane_id {int} NOT NULL, seq {int} NOT NULL, subscription_id {int} NOT NULL, acked {int} NOT NULL DEFAULT 0,
            payload {blob}, PRIMARY KEY (lane_id, seq, subscription_id)) {clustered}""",
        "CREATE INDEX deliveries_by_seq ON deliveries (seq)",
        """CREATE TABLE subscriptions (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, key {key} NOT NULL, query {text} NOT NULL,
            lane_id {int} NOT NULL, subscriber {key}, namespaces {text}, dialect {text} NOT NULL, kind {text} NOT NULL,
            url {text}, secret {text}, expires {real}, topic {text}, content_filter {text}, state {text} NOT NULL,
            reason {text}, created {real} NOT NULL, replay_next {int}, replay_end {int}, UNIQUE (tenant_id, key))""",
        "CREATE INDEX subscriptions_of_lane ON subscriptions (lane_id, key)",
        "CREATE INDEX subscriptions_not_active ON subscriptions (tenant_id, state, key) WHERE state <> 'active'",
        "CREATE INDEX subscriptions_pushed ON subscriptions (id) WHERE kind <> 'pull'",
        """CREATE TABLE errors (
            subscription_id {int} NOT NULL, id {int} NOT NULL, at {real} NOT NULL, reason {text} NOT NULL, seq {int},
            count {int} NOT NULL, PRIMARY KEY (subscription_id, id)) {clustered}""",
        """CREATE TABLE dead_letters (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, subscription_id {int} NOT NULL, seq {int} NOT NULL,
            source {key} NOT NULL, message_id {text} NOT NULL, received {real} NOT NULL, attempts {int} NOT NULL,
            reason {text} NOT NULL, at {real} NOT NULL, rewritten {int} NOT NULL, revived {int} NOT NULL,
            body {blob} NOT NULL)""",
        "CREATE INDEX dead_letters_of_tenant ON dead_letters (tenant_id, id)",
        "CREATE INDEX dead_letters_of_subscription ON dead_letters (subscription_id, seq)",
        "CREATE INDEX dead_letters_revived ON dead_letters (subscription_id, seq) WHERE revived = 1",
        "CREATE TABLE secrets (name {key} PRIMARY KEY, secret {blob} NOT NULL)",
        "INSERT INTO tenants (id, name, limits) VALUES (1, 'default', '{{}}')",
        "INSERT INTO counters (name, value) VALUES "
        + ", ".join(f"('{name}', {int(name == 'tenant')})" for name in COUNTERS),
    ),
    # 2: the rest of a deleted subscription is removed little by little
    ("CREATE TABLE leftovers (subscription_id {int} PRIMARY KEY, lane_id {int} NOT NULL)",),
    # 3: deliveries that wait while their queue has gone on
    (
        """CREATE TABLE set_aside (
            lane_id {int} NOT NULL, seq {int} NOT NULL, subscription_id {int} NOT NULL,
            PRIMARY KEY (lane_id, seq, subscription_id)) {clustered}""",
        "CREATE INDEX set_aside_by_seq ON set_aside (seq)",
    ),
    # 4: a broker as a part of an overlay
    (
        """CREATE TABLE overlay_self (
            id {int} PRIMARY KEY, name {key} NOT NULL, instance {blob} NOT NULL, incarnation {int} NOT NULL)""",
        """CREATE TABLE overlay_roots (
            identity {int} PRIMARY KEY, name {key} NOT NULL, horizon {int}, seen {real} NOT NULL)""",
        """CREATE TABLE overlay_origins (
            seq {int} PRIMARY KEY, root {int} NOT NULL, number {int} NOT NULL, way {text} NOT NULL)""",
        "CREATE UNIQUE INDEX overlay_origins_by_number ON overlay_origins (root, number)",
        "INSERT INTO counters (name, value) VALUES ('forgotten', 0)",
    ),
    # 5: attempts and requests that outlive a kill; results that several deliveries share; a number that changes with
    # what an operator's command writes
    (
        """CREATE TABLE push_attempts (
            lane_id {int} PRIMARY KEY, seq {int} NOT NULL, subscription_id {int} NOT NULL, attempts {int} NOT NULL,
            first_at {real} NOT NULL)""",
        "CREATE TABLE websub_requests (id {int} PRIMARY KEY, base_url {text} NOT NULL, form {text} NOT NULL)",
        """CREATE TABLE payloads (
            seq {int} NOT NULL, number {int} NOT NULL, payload {blob} NOT NULL,
            PRIMARY KEY (seq, number)) {clustered}""",
        "ALTER TABLE deliveries ADD COLUMN shared {int}",
        "INSERT INTO counters (name, value) VALUES ('access', 0), ('websub_request', 0)",
    ),
    # 6: the catalogue of an overlay, and the log of the brokers that hold its registry
    (
        """CREATE TABLE overlay_records (
            kind {key} NOT NULL, name {key} NOT NULL, value {blob} NOT NULL, PRIMARY KEY (kind, name)) {clustered}""",
    ),
    # 7: messages that a query in XQuery has not reached before it is paused are not lost
    (
        """CREATE TABLE pauses (
            subscription_id {int} NOT NULL, first_seq {int} NOT NULL, last_seq {int},
            PRIMARY KEY (subscription_id, first_seq)) {clustered}""",
    ),
    # 8: settings of delivery channels other than a URL and a secret, as JSON
    ("ALTER TABLE subscriptions ADD COLUMN delivery_options {text}",),
    # 9: what happens when too much waits for a subscriber, and the first message that a suspended subscription misses
    (
        "ALTER TABLE subscriptions ADD COLUMN overflow {text}",
        "ALTER TABLE subscriptions ADD COLUMN missed_from {int}",
    ),
    # 10: the values of the parameters of queries, as JSON
    ("ALTER TABLE subscriptions ADD COLUMN params {text}",),
    # 11: the ID attributes that messages declared, for queries that are evaluated later
    ("ALTER TABLE messages ADD COLUMN id_types {blob}",),
    # 12: how a feed is polled: which updates are published, and which links are followed, as JSON
    ("ALTER TABLE sources ADD COLUMN options {text}",),
    # 13: what a publisher sent under an id, so that another body under the same id is noticed
    ("ALTER TABLE messages ADD COLUMN digest {blob}",),
    # 14: the time that retention goes by, and how often an operator has confirmed it; what of the past is awaited;
    # tenants that are being erased; the secret of a webhook that another one replaces
    (
        "INSERT INTO counters (name, value) VALUES ('clock', 0), ('clock_confirmed', 0)",
        "CREATE INDEX subscriptions_behind ON subscriptions (tenant_id) "
        "WHERE replay_next IS NOT NULL OR missed_from IS NOT NULL",
        "ALTER TABLE tenants ADD COLUMN erased {int} NOT NULL DEFAULT 0",
        "ALTER TABLE subscriptions ADD COLUMN previous_secret {text}",
    ),
    # 15: queues whose deliveries are shared out among workers, and what these have
    (
        "ALTER TABLE lanes ADD COLUMN sharing {text}",
        """CREATE TABLE leases (
            lane_id {int} NOT NULL, seq {int} NOT NULL, subscription_id {int} NOT NULL, attempts {int} NOT NULL,
            until {real} NOT NULL, seconds {real} NOT NULL, held {int} NOT NULL,
            PRIMARY KEY (lane_id, seq, subscription_id)) {clustered}""",
        "CREATE INDEX leases_by_seq ON leases (seq)",
    ),
    # 16: until when a token is valid, when it was used last, its secret before it was rotated, and what it is narrowed
    # to, as JSON
    (
        "ALTER TABLE tokens ADD COLUMN expires {real}",
        "ALTER TABLE tokens ADD COLUMN used {real}",
        "ALTER TABLE tokens ADD COLUMN previous_digest {blob}",
        "ALTER TABLE tokens ADD COLUMN previous_until {real}",
        "ALTER TABLE tokens ADD COLUMN narrowed {text}",
        "CREATE INDEX tokens_by_previous ON tokens (previous_digest)",
    ),
    # 17: relations of deliveries, subscriptions that follow, and chains of messages that update and cancel each other,
    # as JSON
    (
        "ALTER TABLE deliveries ADD COLUMN relation {text}",
        "ALTER TABLE dead_letters ADD COLUMN relation {text}",
        "ALTER TABLE subscriptions ADD COLUMN follow {int}",
        """CREATE TABLE chains (
            id {int} PRIMARY KEY, tenant_id {int} NOT NULL, profile {key} NOT NULL, chain {text} NOT NULL,
            keep_from {real} NOT NULL, ends {real}, withdraws {int} NOT NULL)""",
        "CREATE INDEX chains_of_tenant ON chains (tenant_id)",
        "CREATE INDEX chains_by_time ON chains (keep_from)",
        "CREATE INDEX chains_that_end ON chains (ends) WHERE ends IS NOT NULL",
        """CREATE TABLE chain_names (
            tenant_id {int} NOT NULL, profile {key} NOT NULL, name {key} NOT NULL, chain_id {int} NOT NULL,
            PRIMARY KEY (tenant_id, profile, name)) {clustered}""",
        "CREATE INDEX chain_names_of_chain ON chain_names (chain_id)",
        """CREATE TABLE owed (
            subscription_id {int} NOT NULL, seq {int} NOT NULL, relation {text} NOT NULL,
            PRIMARY KEY (subscription_id, seq)) {clustered}""",
        "INSERT INTO counters (name, value) VALUES ('chain', 0)",
    ),
    # 18: tables from which messages are enriched; what sources do with these is among their options
    (
        """CREATE TABLE lookup_tables (
            tenant_id {int} NOT NULL, name {key} NOT NULL, version {int} NOT NULL, updated {real} NOT NULL,
            key_column {text} NOT NULL, columns {text} NOT NULL, row_count {int} NOT NULL, size {int} NOT NULL,
            content {blob} NOT NULL, PRIMARY KEY (tenant_id, name))""",
        "INSERT INTO counters (name, value) VALUES ('lookup_table', 0)",
    ),
    # 19: when subscriptions are told, as JSON; what is known for that, and what is kept for digests; of which messages
    # deliveries tell
    (
        "ALTER TABLE subscriptions ADD COLUMN when_told {text}",
        "ALTER TABLE deliveries ADD COLUMN told {text}",
        "ALTER TABLE dead_letters ADD COLUMN told {text}",
        """CREATE TABLE window_states (
            subscription_id {int} NOT NULL, window_key {key} NOT NULL, due {real} NOT NULL, held {int} NOT NULL,
            state {text} NOT NULL, PRIMARY KEY (subscription_id, window_key)) {clustered}""",
        "CREATE INDEX window_states_due ON window_states (due) WHERE held = 0",
        """CREATE TABLE kept_messages (
            subscription_id {int} NOT NULL, window_key {key} NOT NULL, start {real} NOT NULL, part {int} NOT NULL,
            seq {int} NOT NULL, message_id {text} NOT NULL, at {real} NOT NULL, is_result {int} NOT NULL,
            payload {blob}, PRIMARY KEY (subscription_id, window_key, start, part, seq)) {clustered}""",
        "CREATE INDEX kept_messages_by_seq ON kept_messages (seq)",
    ),
    # 20: the urgency of messages, subscriptions (as JSON) and deliveries; queues whose most urgent delivery is next
    (
        "ALTER TABLE messages ADD COLUMN priority {int}",
        "ALTER TABLE messages ADD COLUMN deadline {real}",
        "ALTER TABLE subscriptions ADD COLUMN urgency {text}",
        "ALTER TABLE lanes ADD COLUMN by_urgency {int} NOT NULL DEFAULT 0",
        "ALTER TABLE deliveries ADD COLUMN priority {int}",
        "ALTER TABLE deliveries ADD COLUMN due {real}",
        "ALTER TABLE deliveries ADD COLUMN drops {int}",
        "CREATE INDEX deliveries_by_urgency ON deliveries (lane_id, priority, due, seq, subscription_id) "
        "WHERE priority IS NOT NULL",
        "CREATE INDEX deliveries_that_drop ON deliveries (due) WHERE drops = 1",
    ),
)

CURRENT: Final = len(MIGRATIONS)


def migrate(session: DatabaseSession, version: int, dialect: str, url: str) -> None:
    """Brings a store from a version (0: empty) to the current one; raises StoreDamaged if that is a newer one."""
    if version > CURRENT:
        raise StoreDamaged(
            f"the store at {url} has version {version}, this Twigcast knows versions up to {CURRENT}: "
            "it was used by a newer Twigcast; start that one"
        )
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            session.execute(statement.format_map(WORDS[dialect]))
    if version == 0:
        session.execute("INSERT INTO secrets (name, secret) VALUES ('urls', ?)", (secrets.token_bytes(32),))
