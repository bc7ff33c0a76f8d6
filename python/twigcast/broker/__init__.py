"""The broker: a durable XML publish/subscribe service.

Its parts, from the inside out; each imports only those before it:

- ``model``, ``errors``, ``options``, ``metrics``: plain values that all parts share; ``tracing``: spans of
  OpenTelemetry;
- ``feed_addresses``: addresses of feeds that nobody can guess; ``stored_positions``: explanations on stored messages;
- ``urgency``: what is next of what waits, and what is too late;
- ``lookup_tables``: tables from which messages are enriched, and how sources use them;
- ``store``: the store, in SQLite or PostgreSQL;
- ``queues``: the queues of subscribers in memory, and leases; ``tokens``, ``logs``: API tokens and logs;
- ``hub``: publishing with commit groups, the population of subscriptions, replay, retention;
- ``broker``: class ``Broker``, which puts these together;
- ``delivery``: channels, which push deliveries to subscribers, and Atom feeds;
- ``sources``: feeds that the broker polls; ``overlay``: the broker in a network of brokers; ``outbound`` starts these;
- ``api`` and ``console``: the service over HTTP; ``door`` limits connections, ``protocol`` reads requests,
  ``proxies`` what a proxy says of clients.

``serving`` runs all of it as a process, with the settings of ``config``; ``standby`` waits to take over its store.
``commands`` and ``admin`` are the commands ``twigcast serve`` and ``twigcast admin``.
"""
