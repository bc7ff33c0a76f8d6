"""The queues of subscribers in memory.

- ``live``: queues that are read at the moment, and their readers
- ``leases``: deliveries that are handed out for some time
"""
