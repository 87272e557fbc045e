"""The only opener of the fact files."""
