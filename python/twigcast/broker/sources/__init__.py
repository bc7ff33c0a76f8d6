"""Feeds that the broker polls.

``entries`` cuts a feed into messages and finds messages in a folder on a web server, ``poll`` polls sources in time.
"""
