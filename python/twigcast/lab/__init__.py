"""The lab: code that reproduces and examines the publications. The rest of the package does not import it.

- ``reference``: the published filtering algorithms, in Python
- ``transform``: the published plans of For-Where-Return queries
- ``workload``: generators of documents, queries and subscriptions from a DTD
- ``overlays``: the simulator of networks of brokers, and what runs in it
- ``experiments``: the published figures, measured again
"""
