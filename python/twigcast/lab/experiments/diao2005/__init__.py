"""The tables and figures of Y. Diao, *Query Processing for Large-Scale XML Message Brokering*, Berkeley 2005.

Chapters 4 (path matching), 5 (predicates and nested paths), 6 (transformation) and 7 (ONYX, a network of brokers).
"""
