"""Regimes of which losses are documented: one set of conditions for a question and for a table."""
