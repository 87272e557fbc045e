"""Readers of what benchmark clients write, one module a client or a form of its output."""
