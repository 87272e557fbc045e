"""Measuring a running server: a client that streams requests, the A/B that it runs, and a look at
a server from outside.
"""
