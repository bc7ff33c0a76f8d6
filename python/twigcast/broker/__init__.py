"""The broker: a durable XML publish/subscribe service.

Its parts, from the inside out; each knows only those before it:

- ``model``: what is stored and handed on, as plain values;
- ``store``: keeps it (SQLite or PostgreSQL), behind one interface;
- ``queues``: the queues of subscribers in memory, and leases;
- ``hub``: the engine at work. Publishing with group commit, the population of subscriptions, replay, retention;
- ``delivery``: from stored deliveries to subscribers: webhooks, WebSub, Atom;
- ``sources``: feeds that the broker reads by itself;
- ``api`` and ``console``: HTTP in front.

``service`` puts them together; ``config`` says how.
"""
