"""ONYX in simulation.

- ``scenario``: brokers in the simulator, with stores that survive crashes
- ``workload``: an invented world of sources and users; ``simulation``: ``twigcast overlay simulate onyx``
"""
