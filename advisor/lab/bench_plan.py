"""The A/B of a server as a file: what runs, at which load, with which seeds; and its prompts."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError

from advisor.domain.facts import AdvisorError
from advisor.domain.files import read_bytes_safely, read_yaml_safely
from advisor.domain.printable import excerpt
from advisor.perf import imputation
from advisor.readers.results.run import ResultModel

PLAN = "plan.yaml"
MAX_BYTES = 2**20
HEALTH_S = 1800  # model loading and compilation take minutes
# of English text: sets how much is put in front, the server's own count is what is reported
WORDS_PER_TOKEN = 0.75
MAX_PROMPTS_BYTES = 64 * 2**20

TASKS: dict[str, tuple[str, ...]] = {
    "chat": (
        "Explain to a new colleague how to plan a week with three deadlines.",
        "What should one look at before renting a flat in an old building?",
        "Compare travelling by night train with flying for a family of four.",
        "Give advice to someone who wants to start running after a long break.",
    ),
    "code": (
        "Write a Python function that merges overlapping intervals, with tests.",
        "Write a bounded queue for several threads in C++ and explain its locks.",
        "Turn a recursive directory walk into an iterative one in Go.",
        "Write a SQL query for the three best customers of each month, and say how to "
        "index for it.",
    ),
    "math": (
        "Prove that the square root of 7 is irrational, step by step.",
        "Find all integer solutions of x^2 - y^2 = 60 and explain the method.",
        "Compute the probability that 23 people have distinct birthdays, step by step.",
    ),
    "agent": (
        "Plan the tool calls needed to find why a nightly build fails, then write the first three "
        "as JSON.",
        "Given a ticket about slow page loads, list the commands you would run and what you "
        "expect of each.",
    ),
    "rag": (
        "Using only the passages above, say what was decided and by whom, with quotations.",
        "From the passages above, make a table of dates and events.",
    ),
    "summarization": (
        "Summarise the passages above in ten sentences for a reader who knows nothing of them.",
        "Write a one-page report of the passages above with headings.",
    ),
    "creative": (
        "Write the opening of a novel that plays in a lighthouse during a long fog.",
        "Write a dialogue of two clock makers who disagree about time.",
    ),
}
_SUBJECTS = (
    "harbour", "library", "workshop", "orchard", "railway", "school", "theatre", "bakery",
    "hospital", "museum",
)  # fmt: skip
_EVENTS = (
    "reported a delay of {n} days because parts had not arrived",
    "received {n} visitors, more than in the year before",
    "decided to repair the roof before winter and set {n} thousand aside",
    "changed its opening hours after {n} letters of complaint",
    "lent {n} tools to neighbours and got all but two back",
    "replaced {n} old lamps, which halved the cost of light",
)

FileName = Annotated[str, Field(pattern=r"^\w[\w.-]{0,63}$")]  # in the plan's own folder


# YAML reads `off` and `on` without quotes as no and yes
_ARM_NAME = BeforeValidator(lambda x: {False: "off", True: "on"}[x] if isinstance(x, bool) else x)


class Arm(ResultModel):
    """One arm: the launch and what it means."""

    name: Annotated[Literal["off", "on"], _ARM_NAME]
    argv: tuple[str, ...] = Field(min_length=1, max_length=400)
    env: dict[str, str] = Field(default_factory=dict)
    files: dict[FileName, str] = Field(default_factory=dict)  # what argv names, by name
    method: str = "none"
    k: int = Field(0, ge=0, le=128)


class BenchPlan(ResultModel):
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
    output_spread: float = Field(0, ge=0, le=0.95)  # half the range of answers by their mean
    workload: str = "mixed"
    requests: int = Field(ge=1, le=1_000_000)
    warmup: int = Field(ge=0, le=100_000)
    seeds: tuple[int, ...] = Field((1, 2), min_length=1, max_length=20)
    temperature: float | None = Field(None, ge=0, le=5)
    turns: int = Field(1, ge=1, le=100)  # requests of one conversation
    prefix_share: float = Field(0, ge=0, le=1)  # of a prompt, that all have
    rate: float | None = Field(None, gt=0, le=1e5)  # requests/s; None: `concurrency` at a time
    max_ttft_ms: float | None = Field(None, gt=0)  # what counts as good
    max_tpot_ms: float | None = Field(None, gt=0)
    prompts: str | None = None  # a file beside the plan
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=2)


def write(plan: BenchPlan, script: str, prompts: Mapping[str, str], folder: Path) -> list[Path]:
    """Write plan, script and prompts. Raises AdvisorError where another plan is there."""
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
    for name, lines in prompts.items():
        (folder / name).write_text(lines, encoding="utf-8")
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


def results(plan: BenchPlan, folder: Path, arm: str) -> list[Path]:
    """The files of an arm, one a seed."""
    return [folder / f"{arm}-seed{seed}.jsonl" for seed in plan.seeds]


def options_of(plan: BenchPlan) -> dict[str, Any]:
    """What the plan says of its runs, as the options of `advisor ab`."""
    return {"k": plan.arms[-1].k or None} | {
        key: x for key in ("hardware", "model", "quant") if (x := getattr(plan, key)) != "unknown"
    }


def with_plan(asked: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """The options; where one is left out, what the plan of a folder says, if it holds one."""
    planned = options_of(read(folder)) if folder and (folder / PLAN).is_file() else {}
    return {**asked, **{key: x for key, x in planned.items() if asked.get(key) is None}}


def passage(words: int, dice: random.Random) -> str:
    """About that many words of plain sentences, different for every state of the dice."""
    lines: list[str] = []
    count = 0
    while count < words:
        event = dice.choice(_EVENTS).format(n=dice.randrange(3, 400))
        line = (
            f"In week {dice.randrange(1, 53)} the {dice.choice(_SUBJECTS)} of district "
            f"{dice.randrange(1, 900)} {event}."
        )
        lines.append(line)
        count += len(line.split())
    return " ".join(lines)


def make_prompts(
    count: int,
    input_tokens: int,
    workload: str,
    seed: int,
    *,
    prefix_share: float = 0,
    turns: int = 1,
) -> list[str]:
    """Prompts of about `input_tokens` tokens, `prefix_share` of them the same in all; the later
    `turns` of a conversation ask about its first. The same seed makes the same prompts.
    """
    dice = random.Random(f"{workload}:{seed}")
    if workload == "random":  # a word of four letters is about two tokens
        return [
            " ".join("".join(dice.choices(ascii_lowercase, k=4)) for _ in range(input_tokens // 2))
            for _ in range(count)
        ]
    tasks = TASKS.get(workload) or tuple(task for rows in TASKS.values() for task in rows)
    words = max(0, round(input_tokens * WORDS_PER_TOKEN) - 15)
    shared = round(words * prefix_share)
    prefix = passage(shared, random.Random(workload)) + "\n\n" if shared > 10 else ""
    out = []
    for i in range(count):
        task = tasks[(i + dice.randrange(len(tasks))) % len(tasks)]
        own = words - shared if i % turns == 0 else 0
        head = passage(own, dice) + "\n\n" if own > 10 else ""
        out.append(f"{prefix if i % turns == 0 else ''}{head}{task}")
    return out


def usual_spread(workload: str | None) -> float:
    """How far answers vary where nobody says, as the estimates have it."""
    return 0.0 if workload == "random" else imputation.value("output_spread")


def answer_lengths(plan: BenchPlan, count: int, seed: int) -> list[int]:
    """Answer tokens of each request: evenly over the plan's range, in an order of the seed's. With
    one length all end together without drafts and not with them (H200: 0.81 of the output, not
    1.07).
    """
    half = plan.output_spread * plan.output_tokens
    steps = ((2 * i + 1) / count - 1 for i in range(count))
    lengths = [max(1, round(plan.output_tokens + half * step)) for step in steps]
    random.Random(f"lengths:{seed}").shuffle(lengths)
    return lengths


def read_prompts(path: Path, count: int) -> list[str]:
    """Prompts of plain or JSON lines, used in turn. Raises AdvisorError where there are none."""
    found = []
    for line in read_bytes_safely(path, MAX_PROMPTS_BYTES).decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text.startswith("{"):
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise AdvisorError(f"{path.name}: a line is broken JSON") from error
            text = str(row.get("prompt") or row.get("text") or "")
        if text:
            found.append(text)
    if not found:
        raise AdvisorError(f'{path.name}: no prompt in it; one a line, or JSON lines with "prompt"')
    return [found[i % len(found)] for i in range(count)]
