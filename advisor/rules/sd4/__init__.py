"""Rules of family SD4, one rule one file."""
