"""The parts that all experiments share.

- ``model``: experiments, points, samples, claims; ``claims``: the checks that claims are made of
- ``workloads``, ``matchers``, ``timing``: building workloads and measuring
- ``registry``: all experiments; ``variants``: the same on another DTD
- ``runner``, ``tasks``: a task per point, on Spark or here; ``store``: raw results as Parquet
- ``verdicts``: the results of the claims, for the documentation
"""
