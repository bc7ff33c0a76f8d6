"""From stored deliveries to subscribers.

Pushing, from the outside in: ``addresses`` says where requests may go, ``http_client`` makes them, ``host_scheduler``
says when (limits, circuit breakers, waits), ``push`` reads queues and decides what a failure means, and ``webhook`` and
``websub`` are the channels. ``atom`` writes feeds, whose addresses `twigcast.broker.feed_addresses` makes.
`twigcast.broker.outbound` starts and stops them all, with the polling of sources.
"""
