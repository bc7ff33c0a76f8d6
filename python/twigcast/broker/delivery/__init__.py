"""The push of stored deliveries to subscribers.

From the outside in: ``addresses`` says where requests may go, ``http_client`` makes them, ``host_scheduler`` says when
(limits, circuit breakers, waits), and ``push`` reads queues and decides what a failure means. ``channel`` is the
interface of channels, ``channels`` lists them, and each has a module of its name: ``webhook``, ``websub``.
``websub_hub`` makes the subscriptions of WebSub. ``atom`` writes feeds, whose addresses
`twigcast.broker.feed_addresses` makes. `twigcast.broker.outbound` starts and stops all of it, with the polling of
sources.
"""
