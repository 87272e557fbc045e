"""How values are written: missing, joined, cut off, given to a switch, given twice."""

import re

from advisor.domain.launches import CutOffCause
from advisor.domain.nouns import Case, Fix, Flag, Span
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import is_gguf, model_text
from advisor.rules.kit.fixes import drop_fix, span_fix
from advisor.rules.kit.flags import catalogue, catalogued_version, lookup_spelling

_NAME = lazy_re(r"--?[\w-]+(\.\w[\w.-]*)?")
OWN_RULE = ("--flash-attn",)  # SD120
_NO_BLANKS = "Delete the spaces at the end of the line above."
_MEND: dict[CutOffCause, str] = {
    "comment": "Move the comment above the command.",
    "no sign": "End the line above with a backslash.",
    "empty line": "Delete the empty line.",
    "blanks": f"{_NO_BLANKS[:-1]}, or the carriage returns of all (dos2unix).",
    "blanks in batch": _NO_BLANKS,
    "wrong sign": "End the line above with ^.",
}
_OPTION_AND_MORE = lazy_re(r"(--?[A-Za-z][\w.-]*) [^']")
_JOINED = lazy_re(r"(--?[A-Za-z][\w.-]*) \S")
# a chart or a wrapper may join the words and take them apart again
SPLIT_NOWHERE = frozenset(
    ("compose", "kubernetes", "python", "dockerfile", "systemd", "quadlet", "shell", "command")
)
_ON = ("true", "yes", "on", "enabled")
REPEATABLE = (
    *("--lora", "--lora-scaled", "--control-vector", "--override-kv", "--override-tensor"),
    *("--allowed-origins", "--middleware"),
)


@rule("SD108", "error", "catalogued")
def flag_needs_value(case: Case) -> Hits:
    """An option that needs a value stands without one.

    Why: llama-server takes the next flag as the value; argparse refuses to start.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type
        --spec-draft-n-max 2
    Good (version=0.5.0): with --spec-type draft-mtp for --spec-type
    Sources: the engines' own parsers, catalogued by release; llama-server 0.5.0, run
    """
    for given in case.launch.flags:
        if given.value is not None or given.origin != "cli" or given.name in OWN_RULE:
            continue
        if given.unresolved or not given.known or not _NAME.fullmatch(given.raw):
            continue  # of the latter prose: "--models-preset."
        option = catalogue(case).find(lookup_spelling(given), catalogued_version(case))
        if option is not None and option.takes_value:
            fix, what = None, f"Give {given.raw} a value or remove it."
            if given.name == "--spec-type" and "mtp" in model_text(case).lower():
                fix = span_fix(case, given.span, f"{given.raw} draft-mtp", what)
            yield Hit(f"{given.raw} needs a value and has none", flag=given, fix=fix or what)


@rule("SD126", "error")
@when(parts="launch.notes")
def options_cut_off(case: Case) -> Hits:
    r"""Options on lines that are not part of the command.

    Why: the command ends where no backslash does, and at a comment.
    Bad:
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 \
          # --enforce-eager \
          --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good:
        # --enforce-eager
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 \
          --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Sources: https://www.gnu.org/software/bash/manual/html_node/Escape-Character.html;
        https://www.shellcheck.net/wiki/SC1143
    """
    cut = case.launch.cut_off
    if cut is not None:
        yield Hit(
            f"the server starts without {cut.sentence}",
            line=cut.line,
            severity="warning" if case.launch.form == "document" else None,
            fix=_MEND[cut.cause],
        )


@rule("SD129", "warning", "catalogued", decides=True)
def option_and_value_in_one_word(case: Case) -> Hits:
    """A list of arguments in which one item holds an option and its value.

    Why: no shell takes an item apart: the server stops at it, or takes the first one for the
    model's name.
    Bad:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            command:
              - --model=Qwen/Qwen3-8B
              - --max-num-seqs 4
    Good: with --max-num-seqs=4 for --max-num-seqs 4
    Sources: python/cpython Lib/argparse.py (_parse_optional); ggml-org/llama.cpp common/arg.cpp
        (common_params_parse_ex)
    """
    launch, container = case.launch, case.launch.container
    words = (launch.model or "", *(stray.value or "" for stray in launch.strays))
    named = [match[1] for word in words if (match := _OPTION_AND_MORE.match(word))]
    known = [name for name in dict.fromkeys(named) if is_option(case, name)]
    # vLLM's own chart quotes each item of extraArgs
    quoted = container is not None and container.chart == "production-stack"
    sure = (launch.form in SPLIT_NOWHERE or quoted) and not launch.fork
    if known:
        more = f" and {len(known) - 3} more" if len(known) > 3 else ""
        yield Hit(
            f"{', '.join(known[:3])}{more} and the value are one argument, which the server does "
            "not split",
            line=launch.line,
            severity="error" if sure else None,
            fix=apart(case),
            sole=all(len((one.value or "").split()) == 2 for one in launch.strays),
        )


def is_option(case: Case, name: str) -> bool:
    """Whether any release has an option of this name."""
    return catalogue(case).find(name.replace("_", "-"), None) is not None


def apart(case: Case) -> Fix:
    """Each word an item of its own, where the form of the list is known."""
    what = "Pass the value as a separate item"
    what += "." if case.plan.engine == "llama-server" else ", or write OPTION=VALUE."
    fixes = [
        span_fix(case, one.span, join_by_equals(case, one.value or ""), what)
        for one in case.launch.strays
        if (word := _JOINED.match(one.value or "")) is not None and is_option(case, word[1])
    ]
    return Fix(text=what, edits=tuple(edit for fix in fixes for edit in fix.edits))


def join_by_equals(case: Case, word: str) -> str:
    """OPTION=VALUE where the launch writes its options so; else as it is."""
    if not is_gguf(case) and any(
        one.origin == "cli"
        and one.span is not None
        and one.value_span is not None
        and one.value_span.start == one.span.start + len(one.raw) + 1
        for one in case.launch.flags
    ):
        return re.sub(r"\s*=\s*|\s+", "=", word, count=1)
    return word


@rule("SD130", "error", "catalogued", versioned=True)
@when(parts="launch.notes")
def switch_given_a_value(case: Case) -> Hits:
    """A switch followed by `true` or `false`.

    Why: a switch takes no value: the server stops at the word, or takes it for the model.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4 --enforce-eager false
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4 --no-enforce-eager
    Sources: python/cpython Lib/argparse.py (store_true, BooleanOptionalAction: nargs=0);
        ggml-org/llama.cpp common/arg.cpp (common_params_parse_ex)
    """
    for name, word in case.launch.stray_switch_values:
        negated = "--no-" + name.removeprefix("--").replace("_", "-")
        has_opposite = catalogue(case).find(negated, catalogued_version(case)) is not None
        place = next((one for one in case.launch.flags if one.raw == name), None)
        yield Hit(
            f"{name} takes no value: the server stops at '{word}'",
            flag=place,
            severity="warning" if case.launch.fork else None,
            fix=bare(case, place, negated if has_opposite else name, word),
            versions="all catalogued releases",
            everywhere=True,
        )


def bare(case: Case, found: Flag | None, use: str, word: str) -> Fix:
    """The switch without the word, or switched off where the word says so and it can be."""
    name, on = found.raw if found is not None else use, word.lower() in _ON
    leave = f"Write {use}." if use != name else f"Leave {name} out."
    what = f"Leave '{word}' out." if on else leave
    if found is None or found.span is None or found.value_span is None or found.unresolved:
        return Fix(text=what)
    place = Span(start=found.span.start, end=max(found.span.end, found.value_span.end))
    return span_fix(case, place, name if on else use if use != name else "", what)


@rule("SD121", "warning", "catalogued")
def flag_given_twice(case: Case) -> Hits:
    """One option twice with different values, or a switch with its negation.

    Why: the last one silently wins, and a reader sees the wrong value first.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 --max-num-seqs 64
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 64
    Sources: argparse and llama.cpp common/arg.cpp: the last occurrence wins; vllm cli_args.py:
        --middleware is appended to
    """
    if case.launch.form == "text":
        return  # of a language whose conditions are not read
    first: dict[str, Flag] = {}
    for found in case.launch.flags:
        earlier = first.setdefault(found.name, found)
        both = [_text(one).lower() for one in (earlier, found)]
        same = earlier is found or both[0] == both[1] or {*both} <= {*_ON, "1"}
        if same or found.unresolved or earlier.unresolved:
            continue
        outside = earlier.origin == "env" and found.origin == "cli"  # which wins over a variable
        if not outside and _is_override(case, earlier, found):
            first[found.name] = found
            continue
        option = catalogue(case).find(lookup_spelling(found)) if found.known else None
        if option is None or option.many or (earlier.origin != found.origin and not outside):
            continue
        if not option.takes_value and not {earlier.value, found.value} <= {None, "false"}:
            continue
        if option.type in ("str", "flag") and option.choices is None and option.name in REPEATABLE:
            continue
        first[found.name] = found
        message = f"{earlier.raw} is undone by the later {found.raw}"
        what = f"Remove {earlier.raw}, or {found.raw} if the first was meant."
        if option.takes_value:
            was = _text(earlier)
            message = f"{found.raw} is set twice: {_text(found)} is used, {was} is not"
            what = f"Remove the first one ({was}), or the last if the first was meant."
        safe = case.plan.engine in ("vllm", "sglang")
        yield Hit(
            message, flag=found, fix=drop_fix(case, found if outside else earlier, what, safe=safe)
        )


def _is_override(case: Case, earlier: Flag, later: Flag) -> bool:
    """Whether the command sets anew what a macro or a list above it sets."""
    if case.launch.form != "llama-swap":
        return 0 < earlier.line < case.launch.line <= later.line
    given = [one.line for one in case.launch.flags]
    between = abs(given.index(later.line) - given.index(earlier.line))
    return later.line - earlier.line > 2 * between + 2  # other lines than the command's lie between


def _text(found: Flag) -> str:
    return "no value" if found.value is None else found.value
