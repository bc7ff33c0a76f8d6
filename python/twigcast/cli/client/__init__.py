"""The commands that talk to a broker.

- ``publish``, ``subscribe``, ``subscriptions``, ``consumers``, ``tables``, ``tenants``: a module for each command;
  ``deliveries``: pull and tail
- ``profiles``: which broker, with which token; ``connection``: the client, with advice on errors
- ``output``: printing of answers; ``urgency``: options of what goes first
"""
