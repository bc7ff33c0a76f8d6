"""The queues of subscribers in memory.

- ``live``: queues that are being read, and their readers;
- ``leases``: deliveries that are handed out for some time.
"""
