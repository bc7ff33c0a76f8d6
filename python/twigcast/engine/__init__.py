"""The compiled engine in the terms of the package.

- ``session``: converts messages, calls the engine and Saxon, and merges their answers
- ``external``: which queries are for Saxon
- ``arrow``: batches of messages in, batches of matches and deliveries out
"""
