"""The queues of subscribers in memory.

- ``live``: queues that are being read, and their readers;
- ``leases``: deliveries of ordered queues that are handed out for some time;
- ``workers``: shared queues, whose deliveries several workers take beside each other;
- ``waiting``: readers that wait for the next event of a queue; ``lag``: how far subscribers are behind.
"""
