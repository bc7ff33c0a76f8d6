"""The filtering automaton on a Chord ring, in simulation.

- ``build``: converged rings; ``scenario``: traces run against a ring
- ``tally``, ``parts``: the same measures without exchanging messages, for millions of queries;
  ``automaton``, ``label_paths``, ``positions``: the arrays that these count on
- ``simulate``: ``twigcast overlay simulate chord``
"""
