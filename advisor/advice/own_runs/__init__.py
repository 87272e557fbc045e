"""The user's own runs: judged as an A/B test, kept in a machine file, answered with."""
