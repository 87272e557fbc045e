"""Rules of family SD3, by subject."""
