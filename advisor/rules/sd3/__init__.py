"""Rules of family SD3, one rule one file."""
