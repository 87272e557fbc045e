"""Step costs measured on a GPU."""
