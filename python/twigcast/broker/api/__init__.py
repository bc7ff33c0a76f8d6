"""The HTTP API of the broker.

- ``app`` puts the routes together; ``context`` is what they share;
- ``access``: permissions; ``problems``: error responses; ``models``: bodies of requests and responses;
- ``bodies``, ``paging``: bodies and pages within limits; ``envelopes``: deliveries as JSON, made once and shared;
- ``messages``, ``batches``, ``subscriptions``, ``bulk``, ``queries``, ``deliveries``, ``stream``, ``websocket``,
  ``sources``, ``dead_letters``, ``administration``, ``operation``: the routes.
"""
