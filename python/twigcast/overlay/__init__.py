"""Overlays: networks of peers that disseminate messages without a central machine, as protocols.

- `core`: the base of nodes: messages and timers in, messages, timers and deliveries out; no I/O anywhere
- `documents`, `paths`: messages with positions, and queries as strings of labels
- `chord`: the filtering automaton distributed over a Chord ring (Miliaraki et al. 2008)
- `codd`: cooperative dissemination trees without servers (Anand and Chawathe)
- `onyx`: brokers that route by content (Diao 2005)
- `errors`: the errors of all of them

Their simulations are in `twigcast.lab.overlays`.
"""
