"""Cooperative dissemination without servers (Anand and Chawathe, University of Maryland).

- `settings`, `messages`: settings and messages
- `node`: a node of the tree; `handlers`: which function handles which message; `links`: its links to other nodes
- `join`, `leave`: joining the tree, and leaving it without loss; `reorganise`: moving subtrees to better positions
- `filters`: what a node requests from its parent; `summary`: the statistics by which it chooses one
- `engine`: the interface to a query language; `twigs`, `twig_engine`: twig queries over XML

Trees in simulation are in `twigcast.lab.overlays.codd`.
"""
