"""The durable store behind the broker: one interface, SQLite and PostgreSQL below it.

- ``store``: the store; ``database``: the interface of databases; ``sqlite``, ``postgresql``: the two of them
- ``schema``: the tables; ``sealing``: secrets that are encrypted; ``tenure``: which broker may write
- ``messages``, ``subscriptions``, ``queues``, ``leases``, ``sharing``, ``lag``, ``lifecycles``, ``windows``,
  ``urgency``, ``overlay``, ``administration``, ``lookup_tables``: reading and writing, by subject
"""
