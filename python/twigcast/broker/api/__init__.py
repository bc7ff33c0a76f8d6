"""The HTTP API of the broker.

- ``app`` puts the routes together; ``context`` has the objects that they share; ``openapi``: the description of the
  API;
- ``guard``, ``parameters``, ``preconditions``: checks of requests; ``access``: permissions; ``problems``: error
  responses;
- ``models``: bodies of requests and responses; ``streams``: the open streams of all tenants;
- ``bodies``: bodies and pages within limits; ``envelopes``: deliveries as JSON, made once and shared;
- ``messages``, ``subscriptions``, ``bulk``, ``queries``, ``deliveries``, ``stream``, ``websocket``, ``sources``,
  ``tables``, ``atom``, ``websub``, ``consumers``, ``administration``, ``overlay``, ``operation``: the routes.
"""
