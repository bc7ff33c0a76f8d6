"""The peer protocols over a real network: nodes of a ring or of a tree as processes of their own.

- `addresses`: the number of a node is its host and port
- `codec`, `kinds`: messages as bytes
- `driver`: runs a node over the links of ONYX
- `orders`: orders of a user to a node, as JSON; `ring`, `tree`: those of each protocol, and the events that nodes
  report
- `process`, `commands`: the process, and `twigcast overlay peer`
"""
