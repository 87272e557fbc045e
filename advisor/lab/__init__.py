"""Measurements, training, evaluation, benchmarks. Never imported at run time."""
