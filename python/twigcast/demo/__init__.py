"""A small synthetic feed with a thousand subscriptions, for ``make demo`` and for first experiments.

- ``messages``: news stories, public alerts and auctions, some of them malformed as in real feeds
- ``subscriptions``: queries of readers, emergency desks and bidders
- ``__main__``: ``python -m twigcast.demo`` writes both, runs the pipeline and shows the results

All data comes from seeded generators: the same seed gives the same bytes.
"""
