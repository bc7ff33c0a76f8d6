"""Windows: *when* a subscription gets deliveries, beside *which* messages they are about.

- ``declarations``: the window that a subscription declares; ``expressions``: keys, times, values and conditions of
  messages, by the engine
- ``states``: decides what is delivered, without input, output or a clock; ``status``: a state in words
- ``explaining``: why a subscriber is told of a message, or is not
- ``documents``: digests and notes of absence, which the broker writes; ``results``: results with ``$old`` and ``$new``
- ``windows``: the state of a program that uses the library
"""
