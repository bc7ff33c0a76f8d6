"""Cooperative dissemination without servers (Anand and Chawathe, University of Maryland)."""
