"""Cooperative dissemination trees in simulation.

- ``scenario``: traces run against a tree; ``measures``: its overhead, depth and order
- ``simulation``: ``twigcast overlay simulate codd``
- ``interest``: queries that are only numbers; ``twig_engine``: the engine of twigs that all nodes share
- ``siena``: the fixed tree of servers to compare with
"""
