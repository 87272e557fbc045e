"""Seconds, bytes and tokens of a step; closed loop; memory. Arrays, pure."""
