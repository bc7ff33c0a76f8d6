"""The figures and tables of the publications, measured again, with our engine beside the published algorithms.

One folder per publication, one module per figure or table: it declares its sweep as data, how a point is measured, how
the figure is drawn, and the published claims. ``runs`` and other modules beside them hold what several figures share.

- ``framework``: what all experiments share
- ``reporting``: figures as in the original, and one HTML page with everything
- ``commands``: ``twigcast experiment``
"""
