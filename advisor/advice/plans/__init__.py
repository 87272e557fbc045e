"""Which launches could serve the question: checkpoint, layout, limits and draft tokens."""
