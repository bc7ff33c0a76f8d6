"""The hub: takes a message from its acceptance to the queues of its subscribers.

- ``population``: the subscriptions in the engine, by tenant; ``windows``: when they get their deliveries;
- ``sequencer``: the operations of each tenant, in order; ``evaluation``: messages matched by the engine, in
  ``tenant_threads``, which tenants share fairly;
- ``writer``: the one thread that changes the store, many operations in one commit (``commit``);
- ``operations``: the operations, and ``publishing``: the most important of them; ``overflow``: queues that are full;
  ``overdue_deliveries``: what is dropped when it is too late;
- ``lifecycles``: messages that update and cancel others; ``windows``: when subscribers are told, and
  ``window_explanations``: why;
- ``source_schemas``: subscriptions that no message can match; ``lookups``: what is added to messages from tables;
- ``external_queries``: queries that Saxon evaluates;
- ``replay``: matching stored messages for new subscriptions; ``retention``: their removal; ``upkeep``: regular work.
"""
