"""What a container starts given its image, entrypoint, arguments and environment."""

from __future__ import annotations

import re

from advisor import engines
from advisor.domain.patterns import lazy_re
from advisor.engines.base import PASSED_ENV
from advisor.engines.traits import gguf_engine, traits
from advisor.readers.engine_command import EngineCommand, Env, EnvItem, Surroundings
from advisor.readers.form_checks import image_slips, in_one_word, starts_nothing, tag_slip
from advisor.readers.images import engine_of_image, fork_of_image, is_official
from advisor.readers.programs import (
    BYSTANDERS,
    ENGINE_TEXT,
    SHELLS,
    base_name,
    engine_start,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, synthetic
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.words import split_words

_ARGS_NAME = lazy_re(r"(^|_)(ARGS|ARGUMENTS|FLAGS|OPTS|OPTIONS|PARAMS|CLI|COMMAND|CMD|EXTRA)$")
_MODEL_NAMES = (
    "MODEL_ID",
    "MODEL",
    "MODEL_NAME",
    "MODEL_PATH",
    "MODEL_REPO",
    "HF_MODEL",
    "HF_MODEL_ID",
    "VLLM_MODEL",
    "SGLANG_MODEL",
    "LLM_MODEL",
)
_SAME = {
    "CONTEXT_LEN": {
        "sglang": "--context-length",
        "vllm": "--max-model-len",
        "llama-server": "--ctx-size",
    },
    "CTX_SIZE": {
        "sglang": "--context-length",
        "vllm": "--max-model-len",
        "llama-server": "--ctx-size",
    },
    "MAX_CONTEXT": {
        "sglang": "--context-length",
        "vllm": "--max-model-len",
        "llama-server": "--ctx-size",
    },
    "MEM_FRACTION": {"sglang": "--mem-fraction-static", "vllm": "--gpu-memory-utilization"},
    "GPU_MEM_UTIL": {"vllm": "--gpu-memory-utilization"},
    "TP": {"sglang": "--tp-size", "vllm": "--tensor-parallel-size"},
    "TP_SIZE": {"sglang": "--tp-size", "vllm": "--tensor-parallel-size"},
    "SPEC_ALGO": {"sglang": "--speculative-algorithm"},
}
_OWN_PREFIX = lazy_re(
    r"^(?:VLLM|SGLANG|LLM|SERVER)_(?!ATTENTION_BACKEND)"
)  # vLLM itself read VLLM_ATTENTION_BACKEND
_WORKER = lazy_re(r"runpod/worker(?:-v1)?-vllm|worker-vllm")
_ENV_FLAGS = lazy_re(
    r"^(QUANTIZATION|KV_CACHE_DTYPE|MAX_RUNNING_REQUESTS|ATTENTION_BACKEND|MAX_MODEL_LEN"
    r"|GPU_MEMORY_UTILIZATION|MAX_NUM_SEQS|"
    r"MAX_NUM_BATCHED_TOKENS|TENSOR_PARALLEL_SIZE|PIPELINE_PARALLEL_SIZE|DATA_PARALLEL_SIZE"
    r"|SPECULATIVE_\w+|MEM_FRACTION_STATIC|"
    r"CONTEXT_LENGTH|CHUNKED_PREFILL_SIZE|MAMBA_\w+|REASONING_PARSER|TOOL_CALL_PARSER|DTYPE"
    r"|ENFORCE_EAGER|ENABLE_PREFIX_CACHING|"
    r"DISABLE_RADIX_CACHE|TRUST_REMOTE_CODE|SERVED_MODEL_NAME|LOAD_FORMAT|TOKENIZER|SEED"
    r"|SPEC_TYPE|SPEC_DRAFT_\w+|N_GPU_LAYERS|PARALLEL)$"
)


class ContainerRun:
    """A container: what the file says of it. No entrypoint: the image's own."""

    def __init__(
        self,
        around: Surroundings,
        entrypoint: list[Mapped] | None = None,
        args: list[Mapped] | None = None,
        env: Env | None = None,
        scope: Scope | None = None,
    ) -> None:
        self.around, self.entrypoint, self.scope = around, entrypoint, scope
        self.args, self.env = args or [], {} if env is None else env


def add_env(env: Env, assignment: Mapped, scope: Scope | None = None) -> None:
    """One `NAME=value` (or `NAME`, passed through) of a container's environment."""
    name, equals, _ = assignment.text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        return
    if equals:
        value: Mapped | None = (
            assignment.part(len(name) + 1, len(assignment))
            if len(assignment) > len(name) + 1
            else EMPTY
        )
    else:
        value = scope.text(name) if scope else None
    env[name] = EnvItem(value, assignment.first())


def container_command(ran: ContainerRun, reading: Reading, at: int, depth: int = 0) -> bool:
    """Find what a container starts: entrypoint and arguments, else what its image is known to
    start.
    """
    around, env = ran.around, ran.env
    tag_slip(around, reading)
    words = [*(ran.entrypoint or []), *ran.args]
    if words and around.kind in ("compose", "kubernetes") and in_one_word(words[0], reading):
        words = [*split_words(words[0]), *words[1:]]
    if words and len(words) == 2 and base_name(words[0]) in SHELLS and " " in words[1].text.strip():
        words = _with_c(words, ran, reading)
    before = len(reading.found)
    if words and reading.command(words, env, scope=_inside(ran), around=around, at=at, depth=depth):
        image_slips(around, words, not ran.entrypoint, reading.found[before:], reading)
        return True
    if words and _starts_something_else(words[0], bool(ran.entrypoint)):
        return False
    words = list(ran.args)
    image = around.image_text()
    engine = _engine_of(image, words, ran)
    if engine is None:
        return False
    given = words
    words = _plain_args(engine, words)
    if words and words[0].text in _CLIENTS:
        return False
    if (
        words
        and not words[0].text.startswith("-")
        and (not traits(engine).model_first or engine_start(words, 0))
    ):
        return False
    passed: list[Mapped] = []
    if not words or not is_official(image):
        if worker := _WORKER.search(image) is not None:
            _check_worker(env, reading)
        passed = _from_env(engine, env, words, worker)
        words = [*words, *passed]
    if not words and not any(name.startswith("LLAMA_ARG_") for name in env):
        return False
    found = EngineCommand(engine, words, env, at, reading.form, around, fork=fork_of_image(image))
    found.said = PASSED_ENV if passed else ""
    if traits(engine).model_first and is_official(image) and not ran.entrypoint:
        # the image's entrypoint is the command: a second one is taken for the model's name
        found.strays = [word for word in given[: len(given) - len(words)] if word.text != "--"]
    if not ran.entrypoint:
        starts_nothing(around, engine, given, reading)
    reading.add(found)
    return True


def _engine_of(image: str, words: list[Mapped], ran: ContainerRun) -> str | None:
    """The engine of the image, else the one whose options the words are."""
    engine: str | None = engine_of_image(image) if image else None
    given = image or (words and words[0].text.startswith("-"))
    return engine_by_options(words) if engine is None and not ran.entrypoint and given else engine


def _with_c(words: list[Mapped], ran: ContainerRun, reading: Reading) -> list[Mapped]:
    """A shell that is given a script as its only argument takes it for a file's name."""
    place = words[0].span()
    if not ran.entrypoint or place is None or not ENGINE_TEXT.search(words[1].text):
        return words
    text = reading.source.text
    quote = text[place[1] : place[1] + 1]
    flow = quote in ("'", '"') and text[place[0] - 1 : place[0]] == quote
    said = f"{words[0].text} takes its first argument for a file: -c comes before a script"
    if flow:
        reading.slip(
            said, place[0] - 1, place[1] + 1, f"{quote}{words[0].text}{quote}, {quote}-c{quote}"
        )
    else:
        reading.slip(said, words[0].first(), text="-c before the script")
    return [words[0], synthetic("-c", words[0].first()), words[1]]


# subcommands of an engine's program that start no server
_CLIENTS = frozenset(("bench", "chat", "complete", "run-batch", "collect-env", "launch"))


def _inside(ran: ContainerRun) -> Scope:
    """The variables that a shell inside the container sees."""
    return Scope({name: item.value for name, item in ran.env.items() if item.value is not None})


def _starts_something_else(first: Mapped, is_entrypoint: bool) -> bool:
    """Whether the first word is a program of its own (`sleep infinity`, `sh -c "hf download ..."`),
    not an argument.
    """
    name = base_name(first)
    if name in BYSTANDERS or name in SHELLS:
        return True
    if is_entrypoint and "bench" in name:  # a client: llama-benchy
        return True
    return is_entrypoint and not re.search(
        r"vllm|sglang|llama|server|entrypoint|start|run|^$", name
    )


def _plain_args(engine: str, words: list[Mapped]) -> list[Mapped]:
    """Drop what only the image's own entrypoint takes: `serve`, `--server`, a leading `--`."""
    while words and words[0].text in ("serve", "vllm", "sglang", "--server", "--", "-s", "exec"):
        if words[0].text == "-s" and not gguf_engine(engine):
            break
        words = words[1:]
    return words


_SIGNS = {
    "sglang": """--mem-fraction-static --model-path --speculative-algorithm
        --speculative-algo --tp-size --context-length --chunked-prefill-size
        --max-running-requests""",
    "vllm": """--gpu-memory-utilization --max-model-len --tensor-parallel-size
        --speculative-config --max-num-seqs --max-num-batched-tokens
        --enable-prefix-caching --no-enable-prefix-caching --spec-method""",
    "llama-server": """-ngl --n-gpu-layers --ctx-size --spec-type -hf --hf-repo -fa
        --flash-attn --jinja -ctk --cache-type-k --spec-draft-n-max -np --mmproj
        --gpu-layers -ub --ubatch-size""",
}


def engine_by_options(words: list[Mapped]) -> str | None:
    """The engine whose own options these are: at least two of one engine's and of no other's
    more.
    """
    names = {
        "--" + t[2:].replace("_", "-") if (t := w.text.split("=")[0]).startswith("--") else t
        for w in words
    }
    best = max((len(names.intersection(signs.split())), engine) for engine, signs in _SIGNS.items())
    return best[1] if best[0] >= 2 else None


def _check_worker(env: Env, reading: Reading) -> None:
    """Variables that RunPod's worker does not pass on, but for a slip: each option of vLLM has one
    in capitals.
    """
    from difflib import get_close_matches  # start-up: only for that image

    known = engines.get("vllm").catalogue
    names = [one[2:].replace("-", "_").upper() for one in known.names() if one.startswith("--")]
    for name, item in env.items():
        near = get_close_matches(name, names, 1, 0.88) if "_" in name else []
        if name in names or name in _MODEL_NAMES or not near:
            continue
        if known.find(f"--{name.lower().replace('_', '-')}", None) is None:
            written = reading.source.text.startswith(name, item.at)
            said = f"the worker reads no variable {name}; {near[0]} is meant"
            reading.slip(said, item.at, item.at + len(name) if written else None, near[0], False)


def _from_env(engine: str, env: Env, words: list[Mapped], worker: bool = False) -> list[Mapped]:
    """Options that a wrapper image takes from its environment (EXTRA_ARGS, MODEL_ID, CONTEXT_LEN
    ...); RunPod's worker takes every one.
    """
    made_words: list[Mapped] = []
    has_model = any(
        word.text.split("=")[0] in ("--model", "--model-path", "-m", "-hf", "--hf-repo")
        for word in words
    ) or (traits(engine).model_first and bool(words) and not words[0].text.startswith("-"))
    for name, item in env.items():
        value = item.value
        if value is None or not value.text:
            continue
        if name in _MODEL_NAMES and not has_model and re.search(r"[/\w]", value.text):
            flag = {"vllm": "--model", "sglang": "--model-path"}.get(engine, "--model")
            made_words += [synthetic(flag, item.at), value]
            has_model = True
        elif _ARGS_NAME.search(name) and "--" in value.text:
            made_words += split_words(value)
        elif flag := _SAME.get(name, {}).get(engine, ""):
            made_words += [synthetic(flag, item.at), value]
        elif _ENV_FLAGS.match(bare := _OWN_PREFIX.sub("", name)) or (worker and "_" in name):
            made_words += _env_flag(engine, bare, item, value)
    return made_words


def _env_flag(engine: str, name: str, item: EnvItem, value: Mapped) -> list[Mapped]:
    flag = "--" + name.lower().replace("_", "-")
    option = engines.get(engine).catalogue.find(flag, None)
    number = option is not None and option.type in ("int", "float")  # it has no "auto"
    if option is None or value.text.lower() in ("none", "null", "" if number else "auto"):
        return []
    if option.takes_value is False:
        return (
            [synthetic(flag, item.at)] if value.text.lower() in ("1", "true", "yes", "on") else []
        )
    return [synthetic(flag, item.at), value]
