"""A released engine's options -> the catalogue: `python -m advisor.engines.extract vllm 0.34.0`.

- `releases` downloads a wheel or source archive, unpacks it, and makes the environment that the
  engines' parsers import;
- `probe` runs in that environment: it builds the release's own argument parser, without a GPU, and
  lists or applies it;
- `llama` reads the options of a llama-server binary or of its sources;
- `advisor.engines.extract.build_catalogue` folds one release into the catalogue of all of them.

What it does not know: which behaviour changed without an option (the hand-kept `*_notes.yaml`), and
checks that a server makes only after loading a model.
"""
