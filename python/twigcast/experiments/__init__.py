"""The figures and tables of the publications, measured again, with our engine beside the published algorithms.

One module per figure or table, in ``diao2005`` and ``dai2009``: it declares its sweep as data, how a point is
measured, how the figure is drawn, and the published claims. The rest is common:

- ``model``: experiments, points, samples, claims
- ``claims``: the checks that claims are made of
- ``workloads``, ``matchers``, ``filtering``, ``rewriting``, ``bfilter``, ``timing``: building workloads and measuring
- ``registry``: all experiments; ``illustrations``: the figures without measurements
- ``runner``: a task per point, on Spark or here; ``store``: raw results as Parquet
- ``plots``, ``report``: figures as in the original, and one HTML page with everything
- ``commands``: ``twigcast experiment``
"""
