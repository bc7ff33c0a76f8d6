"""The HTTP API of the broker.

- ``app`` puts the routes together; ``context`` is what they share;
- ``access``: permissions; ``problems``: error responses; ``models``: bodies of requests and responses;
- ``bodies``: bodies and pages within limits; ``envelopes``: deliveries as JSON, made once and shared;
- ``messages``, ``subscriptions``, ``bulk``, ``queries``, ``deliveries``, ``stream``, ``websocket``, ``sources``,
  ``administration``, ``overlay``, ``operation``: the routes.
"""
