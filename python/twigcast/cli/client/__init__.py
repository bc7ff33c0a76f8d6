"""The commands that talk to a broker: ``publish``, ``subscribe``, ``pull``, ``tail``, ``subscriptions``, ``tenants``.

Modules: ``profiles`` (which broker, with which token), ``connection`` (the client, and what to do about its errors),
``output`` (what the commands print), and one for each command.
"""
