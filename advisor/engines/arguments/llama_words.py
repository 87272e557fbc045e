"""What llama-server and ik_llama.cpp write inside a value: types, stages, load modes."""

from collections.abc import Sequence

from advisor.domain.nouns import Flag
from advisor.domain.patterns import lazy_re
from advisor.engines.arguments.fields import Extras

STAGE = "--spec-stage"
DRAFT, DRAFT_REPOSITORY = "--spec-draft-model", "--spec-draft-hf"
_REPOSITORY = lazy_re(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?(?<!\.gguf)")
TYPES = {  # method -> the word that is written
    "mtp": "draft-mtp", "eagle3": "draft-eagle3", "draft_model": "draft-simple",
    "dflash": "draft-dflash", "dspark": "draft-dspark", "ngram": "ngram-mod",
}  # fmt: skip
WORDS = {word: method for method, word in TYPES.items()} | {
    "mtp": "mtp", "nextn": "mtp", "draft": "draft_model", "eagle3": "eagle3", "dflash": "dflash",
    "dspark": "dspark",
}  # fmt: skip
LOAD_MODES = {  # option, negated -> mode; "" where it is the default
    ("--mmap", False): "mmap", ("--mmap", True): "none", ("--mlock", False): "mlock",
    ("--mlock", True): "", ("--direct-io", False): "dio", ("--direct-io", True): "",
}  # fmt: skip
# ik_llama.cpp's options that mainline does not have (its README and PRs 417, 932, 1744): read,
# never written
IK_SWITCHES = frozenset((
    "-mtp", "--multi-token-prediction", "-fmoe", "--fused-moe", "-rtr", "--run-time-repack", "-ger",
    "-mqkv", "--merge-qkv", "-khad", "-vhad", "--k-cache-hadamard", "--v-cache-hadamard",
    "--defer-experts", "--parallel-tool-calls",
))  # fmt: skip
IK_VALUES = frozenset((
    STAGE,
    "-amb", "-mla", "--mla-use", "-draft", "--draft-params", "-sas", "-cuda", "--draft-max",
    "--draft-min", "--recurrent-ckpt-mode",
))  # fmt: skip


def draft_flag(name: str) -> str:
    """The option that takes a drafter: a repository, or a file."""
    return DRAFT_REPOSITORY if _REPOSITORY.fullmatch(name) else DRAFT


def mode_of(flags: Sequence[Flag]) -> str:
    """The value of --load-mode that says what --mmap, --mlock and --direct-io say; "" for none."""
    modes = {LOAD_MODES.get((flag.name, flag.value == "false"), "") for flag in flags} - {""}
    if "mlock" in modes and "dio" not in modes:
        return "mlock" if "none" in modes else "mmap+mlock"
    return "dio" if "dio" in modes else next(iter(modes), "")


def speculation_words(value: str | None) -> tuple[list[str], dict[str, str]]:
    """Types of a comma list, and ik_llama.cpp's inline settings: mtp:n_max=2,p_min=0.0."""
    if not value or value == "none":
        return [], {}
    inline: dict[str, str] = {}
    words = []
    for part in value.split(","):
        word, colon, setting = part.partition(":")
        if not colon and "=" in word:
            setting, word = word, ""
        if setting:
            key, _, number = setting.partition("=")
            inline[key] = number
        if word and word != "none":
            words.append(word)
    return words, inline


def stages(extra: Extras) -> tuple[list[str], dict[str, str]] | None:
    """ik_llama.cpp's `--spec-stage type:key=value`: all types, settings of the first drafter."""
    stages = [value.partition(":") for name, value in extra if name == STAGE and value]
    if not stages:
        return None
    main = next((rest for word, _, rest in stages if not word.startswith("ngram")), stages[0][2])
    settings = (part.partition("=") for part in main.split(","))
    return [word for word, _, _ in stages], {key: number for key, _, number in settings}
