"""The trained artefact, models/speedup.json: where it lies, and how it is read."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import read_data, unseal
from advisor.domain.printable import printable
from advisor.prediction.model import Model

ARTEFACT = "speedup.json"
SCHEMA = 5  # of its layout


@lru_cache(maxsize=4)
def load(path: Path | None = None) -> Model:
    """Read the shipped model. Raises AdvisorError where it is missing or unreadable."""
    where = path or Path(ARTEFACT)
    try:
        data = path.read_bytes() if path else read_data(f"models/{ARTEFACT}")
        state = unseal(data, where.name, "reinstall, or run `advisor train`.")
        if state.get("schema") != SCHEMA:
            raise AdvisorError(
                f"{where.name} has layout {printable(str(state.get('schema')), 20)}, this "
                "release reads "
                f"layout {SCHEMA}: reinstall, or run `advisor train`."
            )
        return Model.from_dict(state["model"])
    except OSError as error:
        raise AdvisorError(
            f"the trained model {where.name} is missing; run `advisor train`."
        ) from error
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise AdvisorError(
            f"{where.name} is not a readable model ({error}); run `advisor train`."
        ) from error
