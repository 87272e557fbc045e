"""What a container starts given its image, entrypoint, arguments and environment."""

import re

from advisor import engines
from advisor.domain.patterns import lazy_re
from advisor.domain.records import Record, field
from advisor.engines.images import fork_of_image, is_official
from advisor.engines.traits import gguf_engine, traits
from advisor.readers.engine_command import EngineCommand, Env, EnvItem, Surroundings
from advisor.readers.images import engine_of_image
from advisor.readers.programs import BYSTANDERS, ENGINE_TEXT, SHELLS, base_name, engine_start
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, synthetic
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.words import split_words

ARGS_NAME = lazy_re(r"(^|_)(ARGS|ARGUMENTS|FLAGS|OPTS|OPTIONS|PARAMS|CLI|COMMAND|CMD|EXTRA)$")
_MODEL_NAMES = frozenset((
    "MODEL_ID", "MODEL", "MODEL_NAME", "MODEL_PATH", "MODEL_REPO", "HF_MODEL", "HF_MODEL_ID",
    "VLLM_MODEL", "SGLANG_MODEL", "LLM_MODEL",
))  # fmt: skip
_CONTEXT = {"sglang": "--context-length", "vllm": "--max-model-len", "llama-server": "--ctx-size"}
_SAME = {
    "CONTEXT_LEN": _CONTEXT,
    "CTX_SIZE": _CONTEXT,
    "MAX_CONTEXT": _CONTEXT,
    "MEM_FRACTION": {"sglang": "--mem-fraction-static", "vllm": "--gpu-memory-utilization"},
    "GPU_MEM_UTIL": {"vllm": "--gpu-memory-utilization"},
    "TP": {"sglang": "--tp-size", "vllm": "--tensor-parallel-size"},
    "TP_SIZE": {"sglang": "--tp-size", "vllm": "--tensor-parallel-size"},
    "SPEC_ALGO": {"sglang": "--speculative-algorithm"},
}
# vLLM itself read VLLM_ATTENTION_BACKEND
_OWN_PREFIX = lazy_re(r"^(?:VLLM|SGLANG|LLM|SERVER)_(?!ATTENTION_BACKEND)")
_WORKER = lazy_re(r"runpod/worker(?:-v1)?-vllm|worker-vllm")
_ENV_FLAGS = lazy_re(
    r"^(QUANTIZATION|KV_CACHE_DTYPE|MAX_RUNNING_REQUESTS|ATTENTION_BACKEND|MAX_MODEL_LEN|MAMBA_\w+"
    r"|GPU_MEMORY_UTILIZATION|MAX_NUM_SEQS|MAX_NUM_BATCHED_TOKENS|TENSOR_PARALLEL_SIZE|PARALLEL"
    r"|PIPELINE_PARALLEL_SIZE|DATA_PARALLEL_SIZE|SPECULATIVE_\w+|MEM_FRACTION_STATIC|DTYPE|SEED"
    r"|CONTEXT_LENGTH|CHUNKED_PREFILL_SIZE|REASONING_PARSER|TOOL_CALL_PARSER|ENFORCE_EAGER"
    r"|ENABLE_PREFIX_CACHING|DISABLE_RADIX_CACHE|TRUST_REMOTE_CODE|SERVED_MODEL_NAME|LOAD_FORMAT"
    r"|TOKENIZER|SPEC_TYPE|SPEC_DRAFT_\w+|N_GPU_LAYERS)$"
)


class ContainerRun(Record):
    """A container: what the file says of it. No entrypoint: the image's own."""

    around: Surroundings
    entrypoint: list[Mapped] | None = None
    args: list[Mapped] = field(default_factory=list)
    env: Env = field(default_factory=dict)
    scope: Scope | None = None


_PASSED_ENV = (
    "the image is taken to pass its environment (model, arguments) to the engine; what it adds is "
    "not known"
)


_WHOLE = lazy_re(rf"(?:python3? -m )?(?:{ENGINE_TEXT.pattern}|sglang\.|vllm\.)")


def add_env(env: Env, assignment: Mapped, scope: Scope | None = None) -> None:
    """One `NAME=value` (or `NAME`, passed through) of a container's environment."""
    name, equals, _ = assignment.text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        return
    given = assignment.part(len(name) + 1, len(assignment)) or EMPTY
    value = given if equals else scope.text(name) if scope else None
    env[name] = EnvItem(value, assignment.first())


def container_command(ran: ContainerRun, reading: Reading, at: int, depth: int = 0) -> bool:
    """Find what a container starts, else what its image is known to start."""
    around, env = ran.around, ran.env
    words = [*(ran.entrypoint or []), *ran.args]
    first = words[0].text if words and around.kind in ("compose", "kubernetes") else ""
    if " " in first and "\n" not in first and _WHOLE.match(first):  # which no shell splits
        words = [*_split_item(words[0], reading), *words[1:]]
    before, scope = len(reading.found), Scope.inside(env)
    if words and reading.command(words, env, scope=scope, around=around, at=at, depth=depth):
        if not ran.entrypoint and len(reading.found) == before + 1:
            _check_serve(around, words, reading)
        return True
    if words and _starts_something_else(words[0], bool(ran.entrypoint)):
        return False
    given, image = list(ran.args), around.image_text()
    engine: str | None = engine_of_image(image) if image else None
    dashed = bool(given) and given[0].text.startswith("-")
    if engine is None and not ran.entrypoint and (image or dashed):
        engine = engine_by_options(given)
    if engine is None:
        return False
    words = _plain_args(engine, given)
    named = bool(words) and not words[0].text.startswith("-")
    takes_name = traits(engine).model_first and not (words and engine_start(words, 0))
    if (words and _CLIENTS.fullmatch(words[0].text)) or (named and not takes_name):
        return False
    passed: list[Mapped] = []
    if not words or not is_official(image):
        passed = _from_env(engine, env, words, _WORKER.search(image) is not None)
        words = [*words, *passed]
    if not words and not any(name.startswith("LLAMA_ARG_") for name in env):
        return False
    found = EngineCommand(engine, words, env, at, reading.form, around, fork_of_image(image))
    found.open_end, found.said = bool(passed), _PASSED_ENV if passed else None
    if traits(engine).model_first and is_official(image) and not ran.entrypoint:
        # the image's entrypoint is the command: a second one is taken for the model's name
        found.strays = [word for word in given[: len(given) - len(words)] if word.text != "--"]
    if not ran.entrypoint:
        _check_command(around, engine, given, reading)
    reading.add(found)
    return True


def _split_item(item: Mapped, reading: Reading) -> list[Mapped]:
    words, place, text = split_words(item), item.span(), reading.source.text
    said = f"the container looks for a program called '{item.text[:60]}'"
    quote = text[place[0] - 1 : place[0]] if place else ""
    if place and quote in ("'", '"') and "[" in text[: place[0]].rpartition("\n")[2]:
        listed = ", ".join(f"{quote}{word.text}{quote}" for word in words)
        reading.slip(said, place[0] - 1, place[1] + 1, listed)
    else:
        reading.slip(said, item.first(), text="each word as an item of its own")
    return words


def _check_serve(around: Surroundings, words: list[Mapped], reading: Reading) -> None:
    name = around.image_text()
    given = [word.text for word in words[:2]] == ["vllm", "serve"]
    if given and is_official(name) and engine_of_image(name) == "vllm":
        said = f"{name} starts `vllm serve` itself: given again, it counts as the model"
        rest = words[2].span() if len(words) > 2 else None
        reading.slip(said, words[0].first(), rest and rest[1], words[2].text if rest else "")


def _check_command(
    around: Surroundings, engine: str, words: list[Mapped], reading: Reading
) -> None:
    """Options given to an image that starts no server by itself; a chart may add its command."""
    command, image = traits(engine).image_command, around.image_text()
    if command and words and words[0].text.startswith("-") and is_official(image):
        said = f"{image} starts no server by itself: its command begins with {command}"
        supplied = around.chart or reading.form in ("helm-values", "helmrelease")
        reading.slip(said, words[0].first(), text=f"{command} before it", stops=not supplied)


# subcommands of an engine's program that start no server
_CLIENTS = lazy_re(r"bench|chat|complete|run-batch|collect-env|launch|--run|--all-in-one")


def _starts_something_else(first: Mapped, is_entrypoint: bool) -> bool:
    """Whether the first word is a program of its own (`sleep infinity`), not an argument."""
    name = base_name(first.text)
    if name in BYSTANDERS or name in SHELLS:
        return True
    known = re.search(r"vllm|sglang|llama|server|entrypoint|start|run|^$", name)
    return is_entrypoint and ("bench" in name or not known)  # a client: llama-benchy


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
    """The engine with at least two of these as its own options, and no other with more."""
    names = {
        "--" + t[2:].replace("_", "-") if (t := w.text.split("=")[0]).startswith("--") else t
        for w in words
    }
    best = max((len(names.intersection(signs.split())), engine) for engine, signs in _SIGNS.items())
    return best[1] if best[0] >= 2 else None


def _from_env(engine: str, env: Env, words: list[Mapped], worker: bool = False) -> list[Mapped]:
    """Options that an image takes from its environment (EXTRA_ARGS); RunPod's takes all."""
    made_words: list[Mapped] = []
    names = {word.text.split("=")[0] for word in words}
    has_model = bool(names & {"--model", "--model-path", "-m", "-hf", "--hf-repo"})
    if traits(engine).model_first and words and not words[0].text.startswith("-"):
        has_model = True
    for name, item in env.items():
        value = item.value
        if value is None or not value.text:
            continue
        if name in _MODEL_NAMES and not has_model and re.search(r"[/\w]", value.text):
            flag = {"vllm": "--model", "sglang": "--model-path"}.get(engine, "--model")
            made_words += [synthetic(flag, item.at), value]
            has_model = True
        elif ARGS_NAME.search(name) and "--" in value.text:
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
        is_on = value.text.lower() in ("1", "true", "yes", "on")
        return [synthetic(flag, item.at)] if is_on else []
    return [synthetic(flag, item.at), value]
