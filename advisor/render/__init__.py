"""Advice or findings -> text, JSON, flags, files. Import the module of the form you want."""
