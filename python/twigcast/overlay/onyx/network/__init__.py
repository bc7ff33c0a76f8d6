"""The driver of ONYX over gRPC: processes that exchange the messages of :mod:`twigcast.overlay.onyx.messages`.

- ``fields``, ``frames``: messages as bytes, within bounds
- ``greeting``: the conditions for a link, and its refusal; ``tls``: certificates
- ``settings``, ``reports``: bounds and times, the state of links
- ``streams``: gRPC streams; ``link``: one of them in use, with its queue, round trips and time limits
- ``listener``, ``dialer``: the two ways to begin a link; ``links``: the one link of each pair
- ``driver``: a node with its clock, timers and links

One stream in both directions joins two neighbours. It preserves order and reports its end, which is all that the
protocol requires of a link. A stream that cannot keep up is closed, and the protocol requests what is missing.
"""

import os

# The driver logs faults of connections, once each. gRPC would also write them to standard error, at each attempt. It
# reads this variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
