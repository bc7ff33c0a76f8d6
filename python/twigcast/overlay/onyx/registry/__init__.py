"""The registry of ONYX: which broker serves which source and which profile.

- ``catalogue``: sources, profiles and the choice of brokers, as a state machine
- ``raft``: its replicated log (Raft)
- ``description``: the description of a broker that it sends to all others
"""
