"""Overlays: networks of peers that disseminate messages without a central machine, as protocols and in simulation.

- `core`: what a node is: messages and timers in, messages, timers and deliveries out; no I/O anywhere
- `simulator`: the simulated driver: virtual clock, seeded faults; `journal`, `counters`, `trace`, `checkers` around it
- `documents`, `paths`: messages with positions, and queries as strings of labels
- `chord`: the filtering automaton distributed over a Chord ring (Miliaraki et al. 2008)
- `codd`: cooperative dissemination trees without servers (Anand and Chawathe)
- `draw`: rings, trees and loads as SVG
- `errors`: what can go wrong
"""
