"""What was never measured of ONYX (Diao, Rizvi, Franklin, VLDB 2004): brokers, and other ways beside them."""
