"""From measured runs to models/speedup.json."""
