"""Cooperative dissemination trees in simulation.

- ``scenario``: traces run against a tree; ``measures``: its overhead, depth and order
- ``simulation``, ``simulate``: ``twigcast overlay simulate codd``
- ``interest``: queries that are only numbers
- ``siena``: the fixed tree of servers to compare with
"""
