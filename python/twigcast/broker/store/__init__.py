"""The durable store behind the broker: one interface, SQLite and PostgreSQL below it."""
