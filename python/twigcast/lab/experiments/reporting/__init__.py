"""Results as figures.

- ``plots``: figures as in the original; ``report``, ``report_style``: one HTML page with everything
- ``illustrations``: the figures without measurements
"""
