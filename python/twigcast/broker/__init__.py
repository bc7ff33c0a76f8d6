"""The broker: a durable XML publish/subscribe service.

Its parts, from the inside out; each imports only those before it:

- ``model``: what is stored and passed on, as plain values;
- ``store``: the store, in SQLite or PostgreSQL;
- ``queues``: the queues of subscribers in memory, and leases;
- ``hub``: publishing with commit groups, the population of subscriptions, replay, retention;
- ``broker``: class ``Broker``, which puts these together;
- ``delivery``: channels, which push deliveries to subscribers, and Atom feeds;
- ``sources``: feeds that the broker polls;
- ``api`` and ``console``: the service over HTTP.

``serving`` runs all of it as a process, with the settings of ``config``.
"""
