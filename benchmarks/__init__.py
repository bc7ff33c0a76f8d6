"""Side-by-side benchmarks.

- ``measure``: how time is taken, and E, the unit of speed
- ``workloads``: messages and queries
- ``filtering``: time per message, first passes, memory, beside libxml2 with one XPath per query
- ``changes``: insertion, the message after a change, changes while matching
- ``transformation``, ``transformation_peers``: For-Where-Return queries
- ``spark``: the pipeline beside one that does nothing
- ``run``: ``python -m benchmarks.run`` runs them, keeps their figures under ``results/`` and writes ``RESULTS.md``
"""
