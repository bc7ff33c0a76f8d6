"""The figures of I. Miliaraki, Z. Kaoudi and M. Koubarakis, *XML Data Dissemination Using Automata on Top of
Structured Overlay Networks*, WWW 2008.
"""  # noqa: D205 - a title
