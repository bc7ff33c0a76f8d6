"""A small made-up feed and a thousand subscriptions to it, for ``make demo`` and for trying things out.

- ``messages``: news stories, public alerts and auctions, some of them broken as real ones are
- ``subscriptions``: what readers, emergency desks and bidders might ask for
- ``__main__``: ``python -m twigcast.demo``: writes both, runs the pipeline and shows what came out

Everything is made by seeded generators: the same seed gives the same bytes.
"""
