"""What a launch needs because of its model: parsers, tokenizer, environment."""

from collections.abc import Iterator

from advisor import engines
from advisor.advice.plans import methods
from advisor.domain.nouns import Facts
from advisor.domain.patterns import lazy_re
from advisor.domain.versions import parse_release
from advisor.rules.kit.models import writes_remote_code
from advisor.rules.kit.releases import between
from advisor.rules.registry import get_defect

REMOTE_TOKENIZER = ("kimi",)  # vLLM recipe of Kimi-K2.5
TOKENIZER = "--tokenizer-mode"
AITER_CARDS = ("gfx942", "gfx950")  # for which its kernels are built; off by default (SD279)
# Qwen3's names of what does not think: its parser takes an answer without </think> for a thought
INSTRUCT = lazy_re(r"(?i)[-_]Instruct[-_]2507|Qwen3-(?:VL-|Next-|Coder-)[\w.-]*Instruct")


def needed_env(facts: Facts) -> tuple[tuple[str, str], ...]:
    """What vLLM needs: AITER's kernels asked for, no DeepGEMM where FP8 on a GB10 fails with it."""
    if facts.engine != "vllm":
        return ()
    if facts.device.arch in AITER_CARDS:
        return (("VLLM_ROCM_USE_AITER", "1"),)
    known, at = get_defect("vllm-gb10-deepgemm"), parse_release(facts.engine_version)
    fp8 = facts.device.id == "gb10" and facts.quant is not None and facts.quant.id == "fp8"
    return (("VLLM_USE_DEEP_GEMM", "0"),) if fp8 and between(at, known.since, known.until) else ()


def parser_name(facts: Facts, option: str, wanted: str | None) -> str | None:
    """The engine's own spelling of a parser (models name vLLM's); None where it has none."""
    if wanted is None or methods.habits(facts).gguf:
        return wanted
    catalogue = engines.get(facts.engine or "").catalogue
    flag = catalogue.find(option, facts.engine_version)
    known = (flag.choices or flag.values or ()) if flag is not None else ()
    if flag is None or not known or wanted in known:
        return wanted if flag is not None else None

    def plain(word: str) -> str:
        return "".join(c for c in word.lower() if c.isalnum())

    own = catalogue.notes.get("parsers", {}).get(option, {}).get(wanted, ())
    alike = [word for word in known if plain(word) == plain(wanted)]
    return next((word for word in (*own, *alike) if word in known), None)


def reasoning_parser(facts: Facts, repository: str | None) -> str | None:
    """The parser of the model's thinking; None for a checkpoint that does not think."""
    model = facts.model
    if model is None or INSTRUCT.search(repository or ""):
        return None
    return parser_name(facts, "--reasoning-parser", model.reasoning_parser)


def model_flags(facts: Facts, repository: str | None) -> Iterator[tuple[str, str | None]]:
    """What a launch of this model needs beside limits and parsers."""
    model, engine, version = facts.model, facts.engine or "", facts.engine_version
    # a family whose tokenizer is code (Kimi), or a release without a class of its own (SD273)
    coded = model is not None and model.family in REMOTE_TOKENIZER
    if methods.habits(facts).runs_repository_code and (
        coded or writes_remote_code(repository or "", engine, version)
    ):
        yield "--trust-remote-code", None
    # how vLLM writes a conversation for a model that is published without a chat template
    mode = model.tokenizer_mode if model is not None else None
    if mode is not None and not methods.habits(facts).gguf:
        catalogue = engines.get(engine).catalogue
        names = catalogue.values(TOKENIZER, version).names
        if catalogue.find(TOKENIZER, version) is not None and (not names or mode in names):
            yield TOKENIZER, mode
    # without it vLLM before 0.33 does not start
    if model is not None and model.block_size and engine == "vllm":
        yield "--block-size", str(model.block_size)
