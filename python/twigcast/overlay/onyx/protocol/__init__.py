"""The protocol of ONYX: state machines without I/O, driven by a simulator or by the network.

- ``node``: the node made of these parts; ``state``: its data, which the parts share; ``events``: the events that it
  passes to its application; ``settings``: its times and bounds
- ``topology``: link states, flooded; broadcast trees computed from them; ``flooding``: how they travel
- ``attachments``: which broker is attached to which, by root; ``root_stream``: which messages of a root have been
  received
- ``forwarding``: messages down the tree; ``recovery``: messages asked for again; ``relaying``: messages of services
- ``link_projection``: leaving out of messages what no broker behind a link uses
"""
