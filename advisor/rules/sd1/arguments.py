"""Arguments that the engine does not take so."""

import re
import shlex

from advisor import engines
from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.domain.versions import parse_release
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import model_text
from advisor.rules.kit.fixes import AddedOption, add_fix, drop_fix, rename_fix, span_fix
from advisor.rules.kit.flags import catalogue, lookup_spelling, option_at_release, owners
from advisor.rules.kit.relations import relate
from advisor.rules.kit.releases import is_newest, possible, release
from advisor.rules.kit.values import spelling

# One intent in the words of each engine: vllm, sglang, llama-server. The value means the same.
SAME = (
    ("--max-model-len", "--context-length", "--ctx-size"),
    ("--gpu-memory-utilization", "--mem-fraction-static", None),
    ("--max-num-seqs", "--max-running-requests", "--parallel"),
    ("--tensor-parallel-size", "--tp-size", None),
    ("--pipeline-parallel-size", "--pp-size", None),
    ("--data-parallel-size", "--dp-size", None),
    ("--max-num-batched-tokens", "--chunked-prefill-size", "--batch-size"),
    ("--served-model-name", "--served-model-name", "--alias"),
    ("--model", "--model-path", "--model"),
    ("--tokenizer", "--tokenizer-path", None),
    ("--enforce-eager", "--disable-cuda-graph", None),
    ("--no-enable-prefix-caching", "--disable-radix-cache", "--no-cache-prompt"),
    ("--lora-modules", "--lora-paths", None),
    ("--language-model-only", "--language-only", None),
    ("--root-path", "--fastapi-root-path", None),
    ("--uvicorn-log-level", "--log-level", None),
    ("--cpu-offload-gb", "--cpu-offload-gb", None),
    ("--chat-template", "--chat-template", "--chat-template-file"),
)
# The same intent, but the value is worded otherwise.
ALIKE = (
    ("--speculative-config", "--speculative-algorithm", "--spec-type"),
    ("--kv-cache-dtype", "--kv-cache-dtype", "--cache-type-k"),
    ("--reasoning-parser", "--reasoning-parser", "--reasoning-format"),
    ("--speculative-config", "--speculative-draft-model-path", "--spec-draft-model"),
    ("--speculative-config", "--speculative-num-steps", "--spec-draft-n-max"),
)
BARE = "4227c9be4"  # the catalogued build whose -fa is a switch
BARE_UNTIL = "b6166"  # newest catalogued build whose -fa is a switch
WHAT = "Add --tool-call-parser qwen3_coder (or the one of your model)."
_PLAIN = lazy_re(r"#|[\w./:+=-]+|[A-Za-z]:\\[\w.\\ -]+|%\w+%")
_DASHED = lazy_re(r"(-?[\u2010-\u2015\u2212]+-?)?([A-Za-z][\w-]*)")
_ADDRESS = lazy_re(r"\d{1,3}(?:\.\d{1,3}){3}|localhost")
_GGUF = lazy_re(r"\.gguf$|^%\w*MODEL\w*%$", re.I)
# a tool that passes words on may take its own; these forms reach the server as they stand
_DIRECT = ("document", "python", "helm")


@rule("SD116", "error", "catalogued")
def other_engines_flag(case: Case) -> Hits:
    """A flag of another engine.

    Why: the server refuses to start. Command lines get mixed when a recipe is carried over.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --gpu-memory-utilization 0.9
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --ctx-size 32768
    Sources: the engines' own parsers, catalogued by release
    """
    for found in case.launch.flags:
        if found.known or option_at_release(case, found) != "foreign":
            continue
        theirs = owners(case, found)
        use, same = here(case, found, theirs)
        fix = drop_fix(case, found, f"Remove {found.raw}.")
        if use is not None:
            spelled = spelling(case, use) if same else use
            fix = Fix(text=f"Use {use}.")
            if same and found.origin != "env":
                fix = rename_fix(case, found, spelled, f"Use {spelled}.")
        yield Hit(
            f"{found.raw} is an option of {' and '.join(theirs)}, not of {case.plan.engine}"
            + (f"; here it is {use}" if use else ""),
            flag=found,
            # a build of one's own may take other options, but hardly those that it has a word for
            severity="warning" if case.launch.fork and not same else None,
            fix=fix,
        )


def here(case: Case, found: Flag, theirs: tuple[str, ...]) -> tuple[str | None, bool]:
    """(the option of this engine that says it, whether it takes the same value)."""
    for owner in theirs:
        option = engines.get(owner).catalogue.find(lookup_spelling(found), None)
        names = {lookup_spelling(found), option.name if option is not None else ""}
        for table in (SAME, ALIKE):
            for words in table:
                row = dict(zip(("vllm", "sglang", "llama-server"), words, strict=True))
                use = row.get(case.plan.engine)
                if row.get(owner) in names and use and catalogue(case).find(use) is not None:
                    return use, table is SAME
    return None, False


@rule("SD120", "error", "llama-server", versioned=True)
@when(options="--flash-attn")
def flash_attn_bare(case: Case) -> Hits:
    """A bare -fa or --flash-attn, which newer builds take only with on, off or auto.

    Why: the next flag is eaten as its value and the server exits.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf -fa --jinja
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf -fa on --jinja
    Sources: ggml-org/llama.cpp#22938; llama-server 0.5.0, run
    """
    found, at, last = case.certain("--flash-attn"), release(case), parse_release(BARE_UNTIL)
    old = at is not None and last is not None and at <= last
    if found is not None and found.origin == "cli" and not found.value and not old:
        # a server of 2025 took it bare, which only the build tells
        yield Hit(
            f"{found.raw} needs a value: on, off or auto",
            flag=found,
            fix=span_fix(case, found.span, f"{found.raw} on", f"Write {found.raw} on.", safe=True),
            versions="builds of 2026 (b8643 and later)",
            everywhere=BARE not in possible(case, found) or is_newest(case),
        )


@rule("SD125", "error", "vllm")
def tool_parser_pair(case: Case) -> Hits:
    """--enable-auto-tool-choice and --tool-call-parser, one without the other.

    Why: without a parser the server does not start; without the switch "auto" is refused.
    Bad: vllm serve Qwen/Qwen3.6-27B --enable-auto-tool-choice
    Good: vllm serve Qwen/Qwen3.6-27B --enable-auto-tool-choice --tool-call-parser qwen3_coder
    Sources: vLLM docs, tool calling: --enable-auto-tool-choice needs --tool-call-parser; vllm
        0.19.1 to 0.33.0 cli_args.py; vllm-project/vllm#55754
    """
    auto, parser = case.flag("--enable-auto-tool-choice"), case.flag("--tool-call-parser")
    if case.has_switch("--enable-auto-tool-choice") and parser is None:
        yield Hit(
            "--enable-auto-tool-choice needs --tool-call-parser: the server refuses to start",
            flag=auto,
            fix=add_fix(case, auto, "--tool-call-parser", "qwen3_coder", WHAT)
            if re.search(r"qwen3\.[5-9]|qwen3-(coder|next)", model_text(case).lower())
            else AddedOption(text=WHAT),
        )
    yield from relate(case, "SD125")


@rule("SD133", "error", "catalogued", versioned=True)
def stray_argument(case: Case) -> Hits:
    """An argument that belongs to no option, such as a GGUF file without -m.

    Why: the server stops with "invalid argument" or "unrecognized arguments".
    Bad: llama-server /models/Qwen3.6-27B-Q4_K_M.gguf --ctx-size 8192
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf --ctx-size 8192
    Sources: python/cpython Lib/argparse.py (unrecognized arguments); ggml-org/llama.cpp
        common/arg.cpp (common_params_parse_ex); vllm-project/vllm#27389
    """
    launch = case.launch
    taken: Flag | None = None  # the value of an option whose dashes are missing
    for place, stray in enumerate(launch.strays):
        word, name = stray.value or "", option_without_dashes(case, stray)
        if name is not None:
            option = catalogue(case).find(name, None)
            if option is not None and option.takes_value and "=" not in word:
                taken = launch.strays[place + 1] if place + 1 < len(launch.strays) else None
            text = name + "".join(word.partition("=")[1:])
            yield Hit(
                f"'{word}' is no option: it needs two plain dashes, {name}",
                flag=stray,
                fix=span_fix(case, stray.span, text, f"Write {name}."),
                slip=True,
                sole=True,
            )
            continue
        plain = _PLAIN.fullmatch(word) and not word.startswith("-") and "..." not in word
        if stray is taken or stray.unresolved or not plain:
            continue
        model = _GGUF.search(word) is not None and case.flag("--model", "--hf-repo") is None
        # where a digest alone names the image, what its entrypoint takes is not known
        digest = launch.container is not None and "@sha256" in (launch.container.image or "")
        open_form = launch.form in _DIRECT or (word == "serve" and digest)
        yield Hit(
            f"the argument '{word}' belongs to no option"
            + (": llama-server takes the model with -m" if model else "")
            + (": a folded text has no comments" if word == "#" else ""),
            flag=stray,
            severity="info" if launch.fork else "warning" if open_form else None,
            fix=stray_argument_mend(case, stray, model),
            everywhere=True,
        )


def option_without_dashes(case: Case, stray: Flag) -> str | None:
    """The option that a word is but for its dashes: none, or typographic ones."""
    word = _DASHED.fullmatch((stray.value or "").partition("=")[0])
    if word is None or stray.unresolved or (not word[1] and len(word[2]) < 4):
        return None
    name = f"--{word[2].replace('_', '-')}"
    match = catalogue(case).match(name, None)
    known = match is not None and not match.abbreviated
    return name if known and case.launch.flag(name) is None else None


def stray_argument_mend(case: Case, stray: Flag, model: bool) -> Fix:
    """-m before a model, --n-cpu-moe for --cpu-moe before a number; else the word taken away."""
    word, start = stray.value or "", stray.span.start if stray.span is not None else 0
    beside = (one for one in case.launch.flags if one.span and one.span.end == start - 1)
    before = next((one for one in beside if one.value is None), None)
    counted = f"--n-{before.name.removeprefix('--')}" if before and word.isdigit() else ""
    option = catalogue(case).find(counted, None) if counted else None
    if before and option is not None and option.takes_value is True:
        return rename_fix(case, before, counted, f"Write {counted} {word}.")
    if stray.span is None or case.launch.form == "batch":  # cmd has other quotes, and one variable
        return Fix(text="Write -m before it." if model else f"Remove '{word}'.")
    if model:
        return span_fix(case, stray.span, f"-m {shlex.quote(word)}", "Write -m before it.")
    if not _ADDRESS.fullmatch(word) or case.flag("--host") is not None:
        return span_fix(case, stray.span, "", f"Remove '{word}'.")
    if before is not None and before.raw == "-h":  # which prints the options and ends
        return rename_fix(case, before, "--host", "Write --host for -h.")
    return span_fix(case, stray.span, f"--host {word}", "Write --host before it.")
