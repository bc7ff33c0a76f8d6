"""ONYX in simulation.

- ``scenario``: brokers in the simulator, with stores that survive crashes
- ``workload``: a synthetic world of sources and users; ``simulation``, ``simulate``: ``twigcast overlay simulate onyx``
- ``scheduling``: dependency-aware priority scheduling, as published: a readable form, and its rule on compiled stages
- ``restructuring``: common restructuring steps of links, tried on single messages
"""
