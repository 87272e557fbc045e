"""A sweep as text, JSON, CSV and a plot."""
