"""The engine at work: what happens to a message between its acceptance and the queues of its subscribers.

- ``population``: the subscriptions in the engine, by tenant;
- ``writer``: the one thread that changes the store, many operations in one commit (``commit``);
- ``operations``: what it carries out, and ``publishing``: the operation that matters most;
- ``external_queries``: queries that Saxon evaluates;
- ``replay``: the stored past for new subscriptions; ``retention``: its end.
"""
