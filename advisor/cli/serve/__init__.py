"""The page, its API and the tools for agents: the same use cases as the command line."""
