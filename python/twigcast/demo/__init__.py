"""A small synthetic feed with a thousand subscriptions, and an hour of alerts, for demonstrations.

- ``messages``: news stories, public alerts and auctions, some of them malformed as in real feeds
- ``subscriptions``: queries of readers, emergency desks and bidders; ``vocabulary``: names and values that both share
- ``__main__``: ``python -m twigcast.demo`` writes both, runs the pipeline and shows the results
- ``hour_of_alerts``: alerts in five counties, which are extended, narrowed, called off and repeated
- ``alerts``: ``python -m twigcast.demo.alerts`` runs them through a broker and Spark, and shows who was told what

All data comes from seeded generators: the same seed gives the same bytes.
"""
