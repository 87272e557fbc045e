"""Findings of `validate` as text, JSON, SARIF and GitHub annotations."""
