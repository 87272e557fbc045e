"""What a user's files were measured on: options, then the launch that ran, then the files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, get_args

from advisor import engines, readers
from advisor.advice.spoken import engine_and_release, id_of_driver_name, split_count, strip_size
from advisor.domain.nouns import (
    AdvisorError,
    DraftMethod,
    Goal,
    Method,
    Plan,
    Request,
    UnknownFact,
    Workload,
)
from advisor.engines.traits import gguf_engine
from advisor.knowledge import store as knowledge
from advisor.readers.results.run import BenchmarkRun

METHODS_BY_WORD = dict.fromkeys(("nextn", "draft-mtp", "qwen3_next_mtp", "deepseek_mtp"), "mtp")
SCRIPT = "run.sh"  # of a folder of `advisor bench plan`
_COUNTS = {name: name for name in ("concurrency", "output_tokens")} | {"ctx_tokens": "input_tokens"}
TEXTS_BY_DATASET = {"sharegpt": "chat", "mtbench": "chat", "sonnet": "creative"}


class OwnSetting(NamedTuple):
    """The question behind the files, or why there is none; and the plan that ran."""

    request: Request | None
    method: Method
    k: int | None
    missing: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()  # options that contradict the files, a sentence part each
    goal: Goal = "balanced"
    stated: frozenset[str] = frozenset()
    launch: Plan | None = None

    @property
    def problem(self) -> str:
        """Why there is no question: what contradicts the files, else what is missing."""
        if self.conflicts:
            return "; ".join(self.conflicts)
        return "give " + " and ".join(self.missing) if self.missing else ""


def plan_of_launch(path: Path, version: str | None = None) -> Plan:
    """The first speculating plan of a file or benchmark folder. Raises AdvisorError."""
    path = path / SCRIPT if path.is_dir() else path
    return plan_in(readers.read_path(str(path), version=version), path.name)


def plan_in(read: readers.FileRead, name: str) -> Plan:
    """The same of a text that was read."""
    plans = [engines.get(launch.engine).to_plan(launch) for launch in read.launches]
    if not plans:
        raise AdvisorError(f"{name}: no launch of a server found in it")
    return next((plan for plan in plans if plan.method != "none"), plans[0])


def setting(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    asked: Mapping[str, Any],
    launch: Plan | None = None,
) -> OwnSetting:
    """The question that runs answer. `asked` are options by field of Request, plus `method` and
    `k`. Raises AdvisorError for an option whose name nobody knows.
    """
    runs = [*on, *off]
    given = _with_known_names({key: value for key, value in asked.items() if value is not None})
    conflicts = tuple(_conflicts(given, asked, off, on))
    goal: Goal = given.get("goal", "balanced")
    card, cards = split_count(_first(runs, "hardware") or "")
    stated: dict[str, Any] = {
        "model": launch.model if launch and launch.model else _first(runs, "model"),
        "engine": launch.engine if launch else _first(runs, "engine"),
        "engine_version": launch.engine_version if launch else _first(runs, "engine_version"),
        "hardware": id_of_driver_name(strip_size(card.partition("(")[0].strip())) or None,
        "gpus": cards,
        "workload": workload_of(_first(runs, "dataset")),
    }
    # by a word in the name alone: clients of every engine name the 16 bit repository
    named = knowledge.quant_from_text(PurePath(stated["model"] or "").name)
    gguf = gguf_engine(given.get("engine", stated["engine"]))
    stated["quant"] = named.id if named and gguf == named.family.startswith("gguf") else None
    for name, in_files in _COUNTS.items():
        stated[name] = round(_first(runs, in_files) or 0) or None
    if launch and (ranks := launch.tp * launch.pp * launch.dp) > 1:
        stated |= {"tp": launch.tp, "gpus": ranks}
    k = given.pop("k", None) or (launch.k if launch else None) or _first(on, "k") or _counted_k(on)
    launched = launch.method if launch and launch.method != "none" else None
    word: Any = _first(on, "method") or "mtp"
    method: Any = given.pop("method", None) or launched or METHODS_BY_WORD.get(word, word)
    fields = {key: value for key, value in (stated | given).items() if value is not None}
    missing = _resolve(fields, given)
    if missing or conflicts:
        return OwnSetting(None, method, k, tuple(missing), conflicts, goal)
    drafts: Any = method if method in get_args(DraftMethod) else None
    request = Request(method=drafts, **fields)
    return OwnSetting(request, method, k, goal=goal, stated=frozenset(fields), launch=launch)


def _with_known_names(given: dict[str, Any]) -> dict[str, Any]:
    """The options with names that are known: "vllm@0.32.0", "2x3090". Raises UnknownFact."""
    if "engine" in given:
        engine, release = engine_and_release(given["engine"], given.get("engine_version"))
        given |= {"engine": engines.get(engine).engine}
        given |= {"engine_version": release} if release else {}
    if "hardware" in given:
        name, count = split_count(given["hardware"])
        given |= {"hardware": knowledge.hardware(id_of_driver_name(strip_size(name))).id}
        given |= {"gpus": given.get("gpus", count)} if count else {}
    return given


def _conflicts(
    given: Mapping[str, Any],
    typed: Mapping[str, Any],
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
) -> Iterator[str]:
    """What the files state and an option denies; `typed` are the options as they were given."""
    for name, option in (
        ("k", "--k"), ("method", "--method"), ("model", "--model"), ("hardware", "--hw"),
        ("engine", "--engine"),
    ):  # fmt: skip
        for run in on if name in ("k", "method") else (*on, *off):
            stated = getattr(run, name) or (_counted_k([run]) if name == "k" else None)
            known, wanted = _spelling(name, stated), _spelling(name, given.get(name))
            if known and wanted and known != wanted:
                is_k = " = " if name == "k" else " "
                yield f"{option} {typed[name]} was given and {run.file} says {name}{is_k}{stated}"
                break


def _spelling(name: str, value: Any) -> Any:
    """A value as knowledge spells it; None where it is not known."""
    if name == "model":
        model = knowledge.llm_from_text(str(value or ""))
        return model.id if model else None
    if name == "hardware":
        try:
            return knowledge.hardware(id_of_driver_name(value)).id if value else None
        except UnknownFact:
            return None
    if name == "method":
        word = METHODS_BY_WORD.get(value, value)
        return word if word in get_args(DraftMethod) else None
    # llama-server's formats are ik_llama.cpp's too
    return "llama-server" if value == "ik_llama.cpp" else value


def _counted_k(on: Sequence[BenchmarkRun]) -> int | None:
    """Drafted tokens over drafts, where all drafts were of one length."""
    for run in on:
        mean = run.acceptance.mean_draft() if run.acceptance else None
        if mean and mean.is_integer():
            return int(mean)
    return None


def workload_of(dataset: str | None) -> str | None:
    """The kind of text: of `random`, `sharegpt` or a `code:1f00...` of `bench run`; else None."""
    word = re.split(r"[:/\s_-]", (dataset or "").lower())[0]
    return TEXTS_BY_DATASET.get(word, word if word in get_args(Workload) else None)


def _first(runs: Sequence[BenchmarkRun], name: str) -> Any:
    return next((value for run in runs if (value := getattr(run, name)) is not None), None)


def _resolve(fields: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Names as knowledge spells them, in place; what is missing or unknown."""
    missing = []
    if fields.get("engine") not in (None, *engines.ENGINES):
        missing.append(f"an engine that is predicted (--engine; '{fields['engine']}' is none)")
    if not fields.get("hardware"):
        missing.append("the hardware (--hw NAME)")
    else:
        try:
            fields["hardware"] = knowledge.hardware(fields["hardware"]).id
        except UnknownFact:
            missing.append(
                f"known hardware (--hw NAME; '{fields['hardware']}' is none: advisor hardware list)"
            )
    model = knowledge.llm_from_text(str(fields.get("model") or ""))
    if model is not None:
        fields["model"] = model.id
    elif "model" not in given:
        missing.append("the model (--model NAME)")
    else:
        try:
            knowledge.llm(given["model"])
            missing.append("the model by its name (--model NAME)")
        except AdvisorError as error:
            missing.append(f"a known model ({error})")
    if "engine_version" not in given and fields.get("engine_version"):
        # a release that a file states and no catalogue has: the newest known
        adapter = engines.get(fields["engine"]) if fields.get("engine") and not missing else None
        if adapter is None or fields["engine_version"] not in adapter.versions:
            del fields["engine_version"]
    return missing
