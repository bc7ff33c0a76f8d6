"""The life cycles of messages: which messages update, cancel or repeat others, and which subscriptions learn of it.

``profiles`` describe where messages name themselves and others, ``builtin`` has the profiles of known formats,
``facts`` evaluates a profile on a message with the engine, ``chains`` decides who gets the message, without input,
output or a clock, and ``lifecycle`` keeps the state of a program that uses the library. ``times`` compares times and
versions, ``records`` writes chains as JSON.
"""
