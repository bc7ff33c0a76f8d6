"""The protocol of ONYX: state machines without I/O, driven by a simulator or by the network.

- ``node``: the node made of these parts; ``events``: what it hands to its application; ``settings``: its times and
  bounds
- ``topology``: link states, flooded; broadcast trees computed from them; ``flooding``: how they travel
- ``attachments``: who is attached to whom, by root; ``root_stream``: which messages of a root have been received
- ``forwarding``: messages down the tree; ``recovery``: messages asked for again; ``relaying``: messages of services
- ``link_projection``: what goes over a link in parts
"""
