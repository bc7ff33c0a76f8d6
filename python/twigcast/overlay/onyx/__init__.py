"""ONYX (Diao, Rizvi, Franklin, VLDB 2004; Diao 2005, chapter 7): a network of brokers that routes by content.

Each user's queries live at one broker, each source publishes at one, the *root* of its messages. A message travels from
its root down a broadcast tree, and only to those children below which somebody may want it. What may be wanted is told
up the tree as *routing queries*: disjunctions of conjunctions of absolute linear paths, each implied by the queries it
stands for, so that routing may send too much and never too little.

Content layer (pure computation, no time, no network):

* ``routing``: routing queries; Map, Collect, Aggregate. ``linear``: linear paths in parts, their canonical text;
  ``decompose``, ``absence``: from any condition to a disjunction of conjunctions of linear paths.
* ``implication``: which disjunct implies which; ``widening``, ``generalise``: sound ways to make a routing query
  smaller.
* ``table``: the routing table of one broker, maintained by deltas; ``matching``: its conjunctions in the compiled
  engine; ``announcement``, ``carriers``: what a neighbour has been told, without what is implied.
* ``projection``, ``restructuring``: transformation on a link, remainders (incremental transformation).
* ``scheduling``: which operator runs next: routing, then transformation for links that get the message, then users.
* ``exclusiveness``: partitioning by exclusiveness patterns (PEP).

Control and data plane (state machines without I/O, driven by the simulator or by the network):

* ``registration``: sources and the catalogue, profiles, the choice of brokers; ``replicated``,
  ``replicated_log``: its log (Raft).
* ``topology``: link states, flooded; broadcast trees computed from them.
* ``streams``: what each broker knows of each root's messages, and how gaps are closed.
* ``broker``: the node made of these; ``flooding``, ``attachments``, ``passing``, ``recovery``: its parts; ``items``:
  what it hands to the application; ``settings``: its times and bounds.
* ``scenario``: brokers in the simulator, with stores that survive crashes; ``workload``, ``simulation``: a
  made-up world for them.

``wire`` holds the formats of messages between brokers; ``network`` the driver over gRPC.

How nothing is lost
-------------------
A root numbers its messages in the order it stored them (its store's sequence, so numbers may be left out). Down the
tree of root *r* a broker is sent *spans* ``(after, upto]``, each with a message numbered ``upto`` or with silence:
all other messages of the span were looked at and not wanted. The spans a broker has been sent make up its knowledge
of *r*; the end of the first unbroken piece is its *horizon*, stored together with the messages.

A parent may speak for the root only where the child's wishes were heard all the way up. So a broker whose parent
towards *r* changes sends the new parent its routing query and, behind it on the same link, ``Attach``; each broker on
the way merges and attaches in its turn, unless what it wants was confirmed before; the root answers ``Attached`` with
its present number, and from there on the spans count. What comes from a former parent does not count any more, because
that one has been told of withdrawals. Trees are made of confirmed attachments, not of what brokers think of the links:
while these views differ, attachments may wait, and a ring of them gets nothing from the root.

Whatever lies between the old horizon and the position of ``Attached`` is a gap in the knowledge. A broker that misses
something says so to those below it, by where its next span begins. A gap that stays is closed by asking the root itself
(``Recover``, passed on up the tree, answered out of its store), each broker for its own users alone. Links need to keep
order and to say when they broke; they may lose whatever was under way when they break.

A wish counts as settled once ``Attached`` has come for an ``Attach`` that was sent after it (``settle``). Of a root
that a broker had never heard of, it gets what the root accepts from their first contact on.
"""
