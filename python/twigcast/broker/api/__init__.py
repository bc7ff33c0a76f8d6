"""HTTP in front of the broker.

``app`` puts the routes together; ``context`` is what they share, ``access`` who may do what, ``problems`` how errors look.
"""
