"""The trained artefact, models/speedup.json: where it lies, and how it is read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import read_data, unseal
from advisor.domain.printable import printable
from advisor.prediction.model import Model

if TYPE_CHECKING:
    from pathlib import Path

ARTEFACT = "speedup.json"
SCHEMA = 6


@lru_cache(maxsize=4)
def load(path: Path | None = None) -> Model:
    """Read the shipped model. Raises AdvisorError where it is missing or unreadable."""
    name = path.name if path else ARTEFACT
    try:
        data = path.read_bytes() if path else read_data(f"models/{ARTEFACT}")
        state = unseal(data, name, "reinstall, or run `advisor train`.")
        if state.get("schema") != SCHEMA:
            raise AdvisorError(
                f"{name} has layout {printable(str(state.get('schema')), 20)}, this release reads "
                f"layout {SCHEMA}: reinstall, or run `advisor train`."
            )
        return Model.from_dict(state["model"])
    except OSError as error:
        raise AdvisorError(f"the trained model {name} is missing; run `advisor train`.") from error
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise AdvisorError(
            f"{name} is not a readable model ({error}); run `advisor train`."
        ) from error
