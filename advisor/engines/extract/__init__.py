"""A released engine's options -> the catalogue: `python -m advisor.engines.extract vllm 0.34.0`.
`releases` downloads, `probe` builds the release's own parser, `llama` reads llama.cpp's sources,
`build_catalogue` folds all releases into one.
"""
