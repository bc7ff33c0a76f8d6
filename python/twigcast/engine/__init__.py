"""The compiled engine in the terms of the package: its key tables, its batches, and the results of Saxon among its own.

- ``key_tables``: keys by slot and by query, at a version of the engine
- ``arrow``: batches of messages in, batches of matches and deliveries out
- ``external``: merges the results of queries that Saxon evaluates
"""
