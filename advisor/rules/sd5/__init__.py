"""Rules of family SD5, by subject."""
