"""Bytes of what a replica holds: weights, keys and values, pools of pages."""
