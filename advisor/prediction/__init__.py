"""Acceptance, features, residual, neighbours -> Estimate."""
