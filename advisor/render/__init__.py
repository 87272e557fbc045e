"""Advice or findings -> text, JSON, flags, compose, systemd, Kubernetes, SARIF. Import the module
of the form you want.
"""
