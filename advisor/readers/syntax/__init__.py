"""Words, variables and trees of the languages that files are written in."""
