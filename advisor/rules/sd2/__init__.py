"""Rules of family SD2, by subject."""
