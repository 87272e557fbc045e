"""Sweeps, comparisons and plans for several workloads as text, JSON, CSV and plots."""
