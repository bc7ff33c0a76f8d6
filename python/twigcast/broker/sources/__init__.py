"""Feeds that the broker polls.

- ``poll``: polls sources in time; ``reports``: the report of each poll
- ``documents``: a feed in plain UTF-8; ``entries``: a feed cut into messages, and messages in a folder on a web server
- ``memory``: entries that are new or updates; ``links``: links of entries that are followed
"""
