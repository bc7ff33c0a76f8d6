"""The Saxon process, which evaluates queries in full XQuery (the optional extra ``xquery``).

A subscription with the dialect ``xquery`` may use constructs that the query language does not have. The engine filters
messages by its binding path; Saxon evaluates the query on those that pass.

- ``safety``: refuses queries that use more than the message; ``comments``: comments in queries
- ``tolerant``: makes texts that are no numbers compare as in the engine
- ``saxon``: starts and ends the process, and sends requests to it
- ``worker``: runs in the process
- ``exchange``: requests and replies as bytes

`twigcast.engine.external` says which queries Saxon gets; `twigcast.engine.session` merges its results with those of
the engine.
"""
