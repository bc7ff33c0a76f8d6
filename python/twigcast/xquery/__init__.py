"""Queries in full XQuery, evaluated by Saxon (the optional extra ``xquery``).

A subscription with the dialect ``xquery`` may use what the query language leaves out. The engine still filters it by
its binding path; here is what happens on the messages that pass:

- ``safety``: what a query may not ask for
- ``saxon``: a process that evaluates queries, and is ended when it takes too long
- ``worker``: what runs in that process
- ``exchange``: what the two tell each other
- ``adding``: who takes which query

Its results are merged with the engine's in `twigcast.engine.external`.
"""
