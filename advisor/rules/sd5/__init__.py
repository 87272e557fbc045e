"""Rules of family SD5, one rule one file."""
