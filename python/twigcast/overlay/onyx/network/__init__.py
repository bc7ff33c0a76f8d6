"""The driver of ONYX over gRPC: real processes that exchange the messages of :mod:`twigcast.overlay.onyx.messages`.

- ``primitives``, ``fields``, ``driving``, ``frames``, ``packets``: from messages to bytes and back, within bounds;
- ``greeting``: what two brokers must agree on before anything else, and how it is refused;
- ``tls``: certificates, and when none are needed;
- ``settings``, ``errors``, ``reports``: bounds and times, what can go wrong, what is told of a link;
- ``link``: one stream between two neighbours: queue, pace, round trips, silence;
- ``listener``, ``dialer``: how links come about; ``links``: the one link of each pair;
- ``driver``: a node, its clock and timers, and its links.

One stream in both directions joins a pair of neighbours. It keeps order and says when it broke, which is all that the
protocol asks of a link; a stream that cannot keep up is broken off, and the protocol asks again for what is missing.
"""

import os

# What goes wrong with connections is told by this driver, in the log of the broker and only where it is new. gRPC would
# also write it to standard error, at each attempt; it looks at this when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
