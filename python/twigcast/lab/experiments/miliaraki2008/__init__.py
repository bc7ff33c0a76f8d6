"""The figures of Miliaraki 2008.

I. Miliaraki, Z. Kaoudi and M. Koubarakis, *XML Data Dissemination Using Automata on Top of Structured Overlay
Networks*, WWW 2008.
"""
