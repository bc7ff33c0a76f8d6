"""Content of ONYX: routing queries, implication and projection. Pure computation, without time or network.

- ``routing_query``: Map, Collect and Aggregate. ``linear``: linear paths and their canonical text; ``decompose``:
  from any condition to a disjunction of conjunctions of linear paths
- ``implication``: implication between disjuncts; ``implication_index``: the same among many; ``widening``,
  ``generalise``: making a routing query smaller without losing messages
- ``routing_table``: the routing table of one broker, updated by deltas; ``routing_index``: its conjunctions in the
  compiled engine; ``announcement``: the disjuncts that a neighbour was sent, without those that others imply
- ``projection``: the part of a message that a query uses, its text and its execution; ``substitution``: renaming in
  expressions
- ``exclusiveness``: query partitioning by exclusiveness patterns (PEP), for figure 7.7 so far
"""
