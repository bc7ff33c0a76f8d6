"""A broker as a part of an overlay of brokers: every message reaches every broker that has a subscription for it.

The protocol is :mod:`twigcast.overlay.onyx`, its network :mod:`twigcast.overlay.onyx.network`. They run in a thread of
their own, with an event loop of their own: what is passed on waits neither for requests nor for the store. Here is what
joins them to the hub:

- ``settings``: how it is set up, and what is refused;
- ``receiving``: messages of others on their way into the store, with how far each other broker is known;
- ``interests``: what the subscriptions here want from elsewhere;
- ``recovery``: what others ask for again;
- ``service``: all of it together; ``reports``: what is told of it.
"""
