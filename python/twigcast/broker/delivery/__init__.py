"""The push of stored deliveries to subscribers.

From the outside in: ``addresses`` says where requests may go, ``http_client`` makes them, ``host_scheduler``
says when (limits, circuit breakers, waits), and ``push`` reads queues and decides what a failure means.
``channel`` says what a channel is, ``channels`` lists them, and each has a module of its name. ``websub_hub`` makes
the subscriptions of WebSub. ``atom`` writes feeds, whose addresses `twigcast.broker.feed_addresses` makes.
`twigcast.broker.outbound` starts and stops all of it, with the polling of sources.
"""
