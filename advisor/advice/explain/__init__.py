"""Why the answer is what it is, what stands around it, and what would change it."""
