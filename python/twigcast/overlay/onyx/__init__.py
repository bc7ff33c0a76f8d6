"""ONYX (Diao, Rizvi, Franklin, VLDB 2004; Diao 2005, chapter 7): a network of brokers that routes by content.

Each user's queries are at one broker. Each source publishes at one, the *root* of its messages. A message travels from
its root down a broadcast tree, but only to children below which a broker may have a matching subscription. Interests
travel up the tree as *routing queries*: disjunctions of conjunctions of absolute linear paths, which the queries imply,
so that routing may send too much and never too little.

* ``messages``: the messages between brokers; ``lexicon``: dictionaries of names that grow
* ``content``: routing queries, implication, projection (pure computation, no time, no network)
* ``wire``: the forms of message bodies between brokers
* ``protocol``: the node and its parts (state machines without I/O)
* ``registry``: sources, profiles and their brokers, on a replicated log
* ``network``: the driver over gRPC

The simulation is in `twigcast.lab.overlays.onyx`.

Why nothing is lost
-------------------
A root numbers its messages in the order in which it stored them (the sequence of its store, so numbers may be left
out). Down the tree of root *r* a broker is sent *spans* ``(after, upto]``, each with a message numbered ``upto`` or
empty: all other messages of the span were matched and not wanted. The end of the first unbroken range of spans is the
*horizon* of the broker for *r*. It is stored together with the messages.

A parent may speak for the root only if the child's interests were confirmed by the root. So when the parent of a broker
towards *r* changes, the broker sends the new parent its interests and then, on the same link, ``Attach``. Each broker
on the path merges the interests and attaches in turn, unless they were confirmed before. The root answers ``Attached``
with its current number, from which on spans count. Spans of a former parent no longer count, because it was sent
withdrawals. Trees consist of confirmed attachments, not of what brokers currently believe about the links. While these
views differ, attachments may wait, and a ring of them gets nothing from the root.

What lies between the old horizon and the position of ``Attached`` is a gap. A broker that misses something shows this
to those below it by the start of its next span. A gap that remains is closed by asking the root (``Recover``, passed up
the tree and answered from its store), by each broker for its own users alone. Links have to preserve order and to
report their end. Messages under way may be lost when a link ends.

Interests are settled once ``Attached`` has come for an ``Attach`` that was sent after them (``settle``). Of a root that
is new to a broker, it gets the messages accepted from their first contact on.
"""
