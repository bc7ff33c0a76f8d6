"""A broker in an overlay: every message reaches every broker that has a matching subscription.

The protocol is :mod:`twigcast.overlay.onyx`, its network :mod:`twigcast.overlay.onyx.network`. Both run in a thread
with an event loop of their own, so that forwarding waits neither for requests nor for the store. This package connects
them with the hub:

- ``service``: the whole, with its start and stop; ``thread``: the thread; ``settings``: the configuration
- ``broker_node``: the node; ``reports``: its state, for the API, the console and ``metrics``
- ``receiving``: stores the messages of others, with their horizons; ``ordering``: holds them back behind gaps
- ``recovery``: reads messages from the store that others request again
- ``interests``: the routing queries of the subscriptions
- ``registry``: the agreed map of sources and profiles to brokers; ``registration_service``: its use by clients
"""
