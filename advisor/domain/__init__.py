"""Nouns, vocabularies, versions, units, paths. Imports nothing of ours."""
