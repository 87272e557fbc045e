"""Rules of family SD1, by subject."""
