"""Words of a command line to flags, flags to words, and what a release's parser would refuse."""
