"""From stored deliveries to subscribers.

Pushing, from the outside in: ``addresses`` says where requests may go, ``outgoing`` makes them, ``hosts`` says when
(limits, circuit breakers, waits), ``push`` reads lanes and decides what a failure means, and ``webhook`` and ``websub``
are the ways to push (``channel``). ``atom`` writes feeds, whose addresses ``capabilities`` makes. ``outward`` starts
and stops them all, with the polling of sources.
"""
