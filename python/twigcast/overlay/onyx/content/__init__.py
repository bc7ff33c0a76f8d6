"""Content of ONYX: routing queries, implication and projection. Pure computation, without time or network.

- ``routing_query``: routing queries; Map, Collect, Aggregate. ``linear``: linear paths in parts, their canonical text;
  ``decompose``: from any condition to a disjunction of conjunctions of linear paths
- ``implication``: which disjunct implies which; ``widening``, ``generalise``: sound ways to make a routing query
  smaller
- ``routing_table``: the routing table of one broker, maintained by deltas; ``routing_index``: its conjunctions in the
  compiled engine; ``announcement``, ``implication_index``: what a neighbour has been sent, without what is implied
- ``projection``, ``projection_text``, ``restructuring``, ``substitution``: transformation on a link, remainders
  (incremental transformation)
- ``exclusiveness``: partitioning by exclusiveness patterns (PEP)
"""
