"""The peer protocols over a real network: nodes of a ring or of a tree as processes of their own.

- `addresses`: the number of a node is its host and port
- `codec`, `kinds`: messages as bytes
- `driver`: runs a node over the links of ONYX
- `ring`, `tree`: what a user tells a node and hears of it, as JSON
- `process`, `commands`: the process, and `twigcast overlay peer`
"""
