"""The registry among running brokers: sources and profiles, and the brokers that serve them.

A few brokers, named by the setting ``overlay_registry``, hold a replicated log
(:mod:`twigcast.overlay.onyx.registry.raft`) of the commands of :mod:`twigcast.overlay.onyx.registry.catalogue`. Any
broker sends them the requests of its clients. All messages go over the links of the overlay, from broker to broker.

- ``codec``: commands, replies and messages as JSON
- ``registrar``: client and replica of one broker, and the persistent state of a holder
- ``catalogue``: the sources, and the check of their keys
"""
