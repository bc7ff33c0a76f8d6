"""The registration service among real brokers: sources and profiles, and which broker serves them.

A few brokers, named by the setting ``overlay_registry``, hold a replicated log
(:mod:`twigcast.overlay.onyx.registry.raft`) and carry out on it what :mod:`twigcast.overlay.onyx.registry.catalogue`
says; any broker asks them for its clients. What they say to each other goes over the links of the overlay, from broker
to broker.

- ``codec``: commands, replies and what is said, as JSON;
- ``replica``: one of the brokers that hold the log; ``ledger``: what it must not forget, in its store;
- ``client``: how a broker asks a holder;
- ``registrar``: both for one broker; ``catalogue``: what every broker knows of sources, and who may publish as one.
"""
