"""The compiled engine in the terms of the package.

- ``session``: converts messages, calls the engine and Saxon, and merges their answers
- ``external``: the queries that Saxon evaluates
- ``arrow``: batches of messages in, batches of matches and deliveries out; ``records``: the records of one large
  document
- ``statistics``: the sizes of the engine's structures
"""
