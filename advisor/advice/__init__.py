"""A question: resolve, propose, estimate, check, decide, explain, what-if."""
