"""Rules of family SD2, one rule one file."""
