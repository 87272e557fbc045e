"""The A/B of a server as a file: what runs, at which load, with which seeds.

`plan.yaml` is what `advisor bench run DIR` reads; `run.sh` beside it does the same with the
engine's own benchmark. The arm without speculation comes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError

from advisor.domain.facts import AdvisorError
from advisor.domain.files import read_yaml_safely
from advisor.domain.printable import excerpt
from advisor.readers.results.run import Frozen

PLAN = "plan.yaml"
MAX_BYTES = 2**20
HEALTH_S = 1800  # model loading and compilation take minutes


FileName = Annotated[str, Field(pattern=r"^\w[\w.-]{0,63}$")]  # in the plan's own folder


def _arm_name(value: Any) -> Any:
    """YAML reads `off` and `on` without quotes as no and yes."""
    return {False: "off", True: "on"}[value] if isinstance(value, bool) else value


class Arm(Frozen):
    """One arm: the launch and what it means."""

    name: Annotated[Literal["off", "on"], BeforeValidator(_arm_name)]
    argv: tuple[str, ...] = Field(min_length=1, max_length=400)
    env: dict[str, str] = Field(default_factory=dict)
    files: dict[FileName, str] = Field(default_factory=dict)  # what argv names, by name
    method: str = "none"
    k: int = Field(0, ge=0, le=128)


class BenchPlan(Frozen):
    """A whole A/B."""

    version: Literal[1] = 1
    hardware: str
    model: str
    quant: str | None = None
    engine: Literal["vllm", "sglang", "llama-server", "ik_llama.cpp"]
    engine_version: str | None = None
    url: str
    health: str = "/health"
    concurrency: int = Field(ge=1, le=10_000)
    input_tokens: int = Field(ge=1, le=10_000_000)
    output_tokens: int = Field(ge=1, le=1_000_000)
    workload: str = "mixed"
    requests: int = Field(ge=1, le=1_000_000)
    warmup: int = Field(ge=0, le=100_000)
    seeds: tuple[int, ...] = Field((1, 2), min_length=1, max_length=20)
    temperature: float | None = Field(None, ge=0, le=5)
    prompts: str | None = None  # a file beside the plan
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=2)


def write(plan: BenchPlan, script: str, folder: Path) -> list[Path]:
    """Write plan and script. Raises AdvisorError where the folder holds another plan."""
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(
        plan.model_dump(mode="json", exclude_none=True), sort_keys=False, width=100
    )
    made = folder / PLAN
    if made.exists() and made.read_text(encoding="utf-8") != text:
        raise AdvisorError(f"{made} is another plan: name another folder with --out")
    made.write_text(text, encoding="utf-8")
    run = folder / "run.sh"
    run.write_text(script, encoding="utf-8")
    run.chmod(0o755)
    return [made, run]


def read(folder: Path) -> BenchPlan:
    """The plan of a folder. Raises AdvisorError."""
    path = folder / PLAN
    if not path.is_file():
        raise AdvisorError(
            f"no {PLAN} in {folder}: make one with 'advisor bench plan --out {folder}'"
        )
    data = read_yaml_safely(path, MAX_BYTES)
    try:
        return BenchPlan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise AdvisorError(f"{path}: {excerpt(where)}: {first['msg'].lower()}") from error
