"""ONYX (Diao, Rizvi, Franklin, VLDB 2004; Diao 2005, chapter 7): a network of brokers that routes by content.

Each user's queries live at one broker, each source publishes at one, the *root* of its messages. A message travels from
its root down a broadcast tree, and only to those children below which somebody may want it. What may be wanted is told
up the tree as *routing queries*: disjunctions of conjunctions of absolute linear paths, each implied by the queries it
stands for, so that routing may send too much and never too little.

* ``messages``: what brokers send each other; ``lexicon``: dictionaries of names that grow
* ``content``: routing queries, implication, projection (pure computation, no time, no network)
* ``wire``: the formats of messages between brokers
* ``protocol``: the node and its parts (state machines without I/O)
* ``registry``: the catalogue of sources and its replicated log
* ``network``: the driver over gRPC

Its simulation is in `twigcast.lab.overlays.onyx`.

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
