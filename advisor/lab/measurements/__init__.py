"""The measured runs: schema, files, bounds."""
