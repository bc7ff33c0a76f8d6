"""Feeds that the broker reads by itself.

``entries`` cuts a feed into messages, ``listing`` finds messages in a folder on a web server, ``poll`` looks for news
at one source, and ``schedule`` sees to it that all are looked at in time.
"""
