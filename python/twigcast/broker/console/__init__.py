"""The console: pages in front of the broker, rendered on the server, with a little script.

Everything that is shown or changed goes through the same store, broker and checks as the API, for the tenant of the
token that was signed in with.

- ``highlighting``, ``query_trial``, ``region_maps``, ``window_trial``: messages, queries and windows prepared for
  display;
- ``activity``: the data of the charts;
- ``forms``, ``pages``, ``requests``: sign-ins, requests and responses;
- ``overview``, ``sources``, ``tables``, ``subscriptions``, ``consumers``, ``workbench``, ``messages``, ``failures``,
  ``overlay``, ``administration``, ``interface``, ``sign_in``: the pages, by subject; ``templates`` and ``static`` are
  theirs;
- ``routes``: all of it as one router.
"""

from twigcast.broker.console.routes import console_router

__all__ = ["console_router"]
