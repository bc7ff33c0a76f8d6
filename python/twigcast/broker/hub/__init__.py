"""The hub: the way of a message from its acceptance to the queues of its subscribers.

- ``population``: the subscriptions in the engine, by tenant;
- ``writer``: the one thread that changes the store, many operations in one commit (``commit``);
- ``operations``: the operations, and ``publishing``: the most important of them;
- ``external_queries``: queries that Saxon evaluates;
- ``replay``: matching stored messages for new subscriptions; ``retention``: their removal.
"""
