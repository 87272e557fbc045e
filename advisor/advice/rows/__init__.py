"""Rows of a table that ask a question."""
