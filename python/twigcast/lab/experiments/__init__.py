"""The figures and tables of the publications, measured again, with our engine beside the published algorithms.

One folder per publication, one module per figure or table: it declares its sweep as data, how a point is measured, how
the figure is drawn, and the published claims. Other modules beside them hold the parts that several figures share.

- ``framework``: the parts of all experiments
- ``reporting``: figures as in the original, and one HTML page with everything
- ``commands``: ``twigcast experiment``
- ``diao2005``, ``dai2009``, ``miliaraki2008``, ``codd``, ``onyx``: the publications
"""
