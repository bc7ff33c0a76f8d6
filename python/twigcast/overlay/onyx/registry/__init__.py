"""The registry of ONYX: which broker serves which source and which profile.

- ``catalogue``: sources, profiles and the choice of brokers, as a state machine; ``description``: what a source says
  of its messages
- ``raft``, ``raft_log``: its replicated log (Raft)
"""
