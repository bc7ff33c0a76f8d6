"""Measurements that ONYX (Diao, Rizvi, Franklin, VLDB 2004) never had: brokers, and other systems beside them."""
