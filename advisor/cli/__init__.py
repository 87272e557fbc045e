"""Options in, one call, rendered text out."""
