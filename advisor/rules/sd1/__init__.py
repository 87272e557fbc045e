"""Rules of family SD1, one rule one file."""
