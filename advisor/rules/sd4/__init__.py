"""Rules of family SD4, by subject."""
