"""Twigcast delivers XML messages to the people and programs that asked for them.

What lives where:

- ``subscriptions``: :class:`SubscriptionSet`, the public face of the matching engine
- ``limits``: what keeps hostile messages and queries from exhausting a machine
- ``errors``: every error and warning
- ``messages``, ``subscription_files``: reading messages and subscriptions from files, folders and archives
- ``conversion``: messages in other encodings or with entities, as plain UTF-8
- ``spark``: the pipeline on Apache Spark
- ``cli``: the command line
- ``_core``: the compiled engine; internal
"""

from twigcast.limits import Limits

__all__ = ["Limits"]
