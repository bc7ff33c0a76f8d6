"""Feeds that the broker polls.

``entries`` cuts a feed into messages, ``listing`` finds messages in a folder on a web server, ``poll`` polls one source
once, and ``schedule`` polls all of them in time.
"""
