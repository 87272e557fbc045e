"""Write knowledge/recipes/vllm.yaml from a checkout of vllm-project/recipes: what its recipes state
of speculation, one row for each model of ours and mode.

    python tests/update_recipes.py CHECKOUT
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from advisor.knowledge import store

FILE = Path(__file__).parents[1] / "knowledge" / "recipes" / "vllm.yaml"
ADDRESS = "https://github.com/vllm-project/recipes/blob"


def spec_config(args: list[str]) -> dict[str, Any]:
    """The speculative options of a recipe's arguments, as one object."""
    out: dict[str, Any] = {}
    for name, value in itertools.pairwise(args):
        if name == "--speculative-config":
            out |= json.loads(value)
        elif name.startswith("--speculative-config."):
            out[name.partition(".")[2]] = int(value) if value.isdigit() else value
    return out


def modes(feature: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each way of drafting that a recipe offers, and whether it is the recipe's own choice."""
    listed = feature.get("modes")
    if not listed:
        yield feature, True
        return
    for name, mode in listed.items():
        yield mode, name == feature.get("default_mode")


def parsers(recipe: dict[str, Any]) -> dict[str, str]:
    """The parsers of tool calls and of reasoning that a recipe names."""
    features = recipe.get("features") or {}
    words = [word for feature in features.values() for word in feature.get("args", ())]
    return {
        name[2:].replace("-", "_"): value
        for name, value in itertools.pairwise(words)
        if name in ("--tool-call-parser", "--reasoning-parser")
    }


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one recipe; none for a model that is not ours."""
    recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    model, meta = recipe.get("model") or {}, recipe["meta"]
    known = store.llm_from_text(model.get("model_id", ""))
    if known is None:
        return
    variants = recipe.get("variants") or {}
    repository = model["model_id"]
    names = {name: row.get("model_id", repository) for name, row in variants.items()}
    precisions = {names[x]: row["precision"] for x, row in variants.items() if "precision" in row}
    hardware = sorted(k for k, v in (meta.get("hardware") or {}).items() if v == "verified")
    base = {
        "model": known.id,
        "repository": repository,
        "recipe": f"{path.parent.name}/{path.name}",
        "date": str(meta["date_updated"]),
        "since": str(model.get("min_vllm_version", "")),
        "context": model.get("context_length"),
        "tp": (variants.get("default") or {}).get("tp"),
        "verified": hardware,
        "precisions": precisions,
        **parsers(recipe),
    }
    feature = (recipe.get("features") or {}).get("spec_decoding")
    for mode, chosen in modes(feature) if feature else [({}, False)]:
        config = spec_config(mode.get("args", []))
        held = [names[name] for name in mode.get("variants", ()) if name in names]
        extra = {
            "method": config.get("method") or ("mtp" if config else None),
            "drafter": config.get("model"),
            "k": config.get("num_speculative_tokens"),
            "checkpoints": held,
            "default": chosen or None,
        }
        found = base | extra
        yield {name: value for name, value in found.items() if value not in (None, [], "", {})}


def main(checkout: str) -> None:
    commit = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    found = [row for path in sorted(Path(checkout).glob("models/*/*.yaml")) for row in rows(path)]
    head = (
        "# What vllm-project/recipes states of speculation with the models here: written by "
        "tests/update_recipes.py,\n# from models/*/*.yaml; only `disagreements` is kept by hand.\n"
    )
    old = yaml.safe_load(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    lines = [f"  - {json.dumps(row, ensure_ascii=False)}" for row in found]
    kept = [f"  - {json.dumps(row, ensure_ascii=False)}" for row in old.get("disagreements", [])]
    FILE.write_text(
        f"{head}source: {ADDRESS}/{commit}/models\nrows:\n"
        + "\n".join(lines)
        + "\n"
        + ("disagreements:\n" + "\n".join(kept) if kept else "disagreements: []")
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main(sys.argv[1])
