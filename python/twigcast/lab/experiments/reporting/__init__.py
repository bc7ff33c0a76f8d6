"""Results as figures.

- ``plots``: figures as in the original; ``report``, ``report_style``: one HTML page with everything
- ``illustrations``: the figures without measurements
- ``headline``: counts of verdicts; ``review``: every statement with its check, for a page of the documentation
"""
