"""The filtering automaton on a Chord ring (Miliaraki, Kaoudi, Koubarakis, WWW 2008).

- `table`: the circle, as far as one node knows it
- `settings`, `messages`, `states`: settings, messages, states of the automaton
- `peer`: a node and its routing; `handlers`: which function handles which message
- `maintenance`: join, stabilise, leave, failures; `replication`: copies and recovery
- `indexing`: subscribing; `publication`, `tickets`: the recursive method; `iterative`: the iterative one
- `matching`, `meeting`: predicates, and branching queries; `shedding`: hot states

Rings in simulation are in `twigcast.lab.overlays.chord`.
"""
