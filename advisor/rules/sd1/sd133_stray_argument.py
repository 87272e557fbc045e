import re
import shlex
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, flags, rename_fix, replace_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue

_PLAIN = lazy_re(r"[\w./:+=-]+|[A-Za-z]:\\[\w.\\ -]+|%\w+%")
_DASHED = lazy_re(r"(-?[\u2010-\u2015\u2212]+-?)?([A-Za-z][\w-]*)")
_ADDRESS = lazy_re(r"\d{1,3}(?:\.\d{1,3}){3}|localhost")
_GGUF = lazy_re(r"\.gguf$|^%\w*MODEL\w*%$", re.I)
# a tool that passes words on may take its own; these forms reach the server as they stand
_DIRECT = ("document", "python", "helm")


@rule(
    severity="error",
    engines=CATALOGUED,
    versioned=True,
    sources=(
        "python/cpython Lib/argparse.py (unrecognized arguments)",
        "ggml-org/llama.cpp common/arg.cpp (common_params_parse_ex)",
        "vllm-project/vllm#27389",
    ),
)
def stray_argument(case: Case) -> Iterator[Hit]:
    """An argument that belongs to no option, such as a GGUF file without -m.

    Why: llama-server takes no positional argument and argparse knows none after the model: the
    server stops with "invalid argument" or "unrecognized arguments".
    Bad: llama-server /models/Qwen3.6-27B-Q4_K_M.gguf --ctx-size 8192
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf --ctx-size 8192
    """
    launch = case.launch
    taken: Flag | None = None  # the value of an option whose dashes are missing
    for number, stray in enumerate(launch.strays):
        word = stray.value or ""
        name = option_without_dashes(case, stray)
        if name is not None:
            option = catalogue(case).find(name, None)
            if option is not None and option.takes_value and "=" not in word:
                taken = launch.strays[number + 1] if number + 1 < len(launch.strays) else None
            what = f"Write {name}."
            yield Hit(
                f"'{word}' is no option: it needs two plain dashes, {name}",
                flag=stray,
                fix=replace_fix(case, stray, name + word[len(_word(word)) :], what, safe=False),
                everywhere=True,
                slip=True,
                sole=True,
            )
            continue
        if stray is taken:
            continue
        if stray.unresolved or not _PLAIN.fullmatch(word) or word.startswith("-") or "..." in word:
            continue
        model = _GGUF.search(word) is not None and flag(case, "--model", "--hf-repo") is None
        yield Hit(
            f"the argument '{word}' belongs to no option"
            + (": llama-server takes the model with -m" if model else ""),
            flag=stray,
            severity="info"
            if launch.fork
            else "warning"
            if launch.form in _DIRECT or (word == "serve" and _is_digest(case))
            else None,
            fix=mend(case, stray, model),
            everywhere=True,
        )


def _is_digest(case: Case) -> bool:
    """Whether a digest alone names the image: what its entrypoint takes is not known."""
    container = case.launch.container
    return container is not None and "@sha256" in (container.image or "")


def _word(text: str) -> str:
    return text.partition("=")[0]


def option_without_dashes(case: Case, stray: Flag) -> str | None:
    """The option that a word is but for its dashes: none, or typographic ones."""
    said = _DASHED.fullmatch(_word(stray.value or ""))
    if said is None or stray.unresolved or (not said[1] and len(said[2]) < 4):
        return None
    name = f"--{said[2].replace('_', '-')}"
    match = catalogue(case).match(name, None)
    if match is None or match.abbreviated:
        return None
    given = case.launch.flag(name)
    return name if given is None else None


def with_number(case: Case, stray: Flag) -> Fix | None:
    """The option that takes the number which stands behind a switch: --n-cpu-moe for --cpu-moe."""
    if stray.span is None or not (stray.value or "").isdigit():
        return None
    at = stray.span.start - 1
    before = next((one for one in flags(case) if one.span and one.span.end == at), None)
    if before is None or before.value is not None:
        return None
    name = f"--n-{before.name.removeprefix('--')}"
    option = catalogue(case).find(name, None)
    if option is None or option.takes_value is not True:
        return None
    return rename_fix(case, before, name, f"Write {name} {stray.value}.", safe=False)


def mend(case: Case, stray: Flag, model: bool) -> Fix:
    """-m before a model; else the word taken away."""
    if (counted := with_number(case, stray)) is not None:
        return counted
    if stray.span is None or case.launch.form == "batch":  # cmd has other quotes, and one variable
        return Fix(text="Write -m before it." if model else f"Remove '{stray.value}'.")
    if model:
        text = f"-m {shlex.quote(stray.value or '')}"
        return replace_fix(case, stray, text, "Write -m before it.", safe=False)
    if _ADDRESS.fullmatch(stray.value or "") and flag(case, "--host") is None:
        text = f"--host {stray.value}"
        return replace_fix(case, stray, text, "Write --host before it.", safe=False)
    return replace_fix(case, stray, "", f"Remove '{stray.value}'.", safe=False)
