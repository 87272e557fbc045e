"""Advice -> files that start the server: one module a form, all from the same `Server`."""
