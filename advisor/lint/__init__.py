"""The story of a file: read, check, compare with advice, fix."""
