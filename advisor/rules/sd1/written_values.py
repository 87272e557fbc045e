"""How values are written: missing, joined, cut off, given to a switch, given twice."""

import re
from collections.abc import Iterator

from advisor.domain.launches import CutOffCause
from advisor.domain.nouns import Case, Fix, Flag, Span
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, rule, when
from advisor.rules.kit.case import flags, is_gguf, model_text
from advisor.rules.kit.fixes import drop_fix, replace_fix, set_fix, span_fix
from advisor.rules.kit.flags import catalogue, catalogued_version, lookup_spelling

_NAME = lazy_re(r"--?[\w-]+(\.\w[\w.-]*)?")
OWN_RULE = ("--flash-attn",)  # SD120


@rule("SD108", "error", "catalogued")
def flag_needs_value(case: Case) -> Iterator[Hit]:
    """An option that needs a value stands without one.

    Why: llama-server takes the next flag as the value; argparse refuses to start.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type
        --spec-draft-n-max 2
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --spec-draft-n-max 2
    Sources: the engines' own parsers, catalogued by release; llama-server 0.5.0, run
    """
    for found in flags(case):
        if (
            found.value is not None
            or not _NAME.fullmatch(found.raw)  # prose: "--models-preset."
            or found.unresolved
            or found.name in OWN_RULE
            or found.origin != "cli"
        ):
            continue
        option = (
            catalogue(case).find(lookup_spelling(found), catalogued_version(case))
            if found.known
            else None
        )
        if option is not None and option.takes_value and not option.many:
            yield Hit(
                f"{found.raw} needs a value and has none", flag=found, fix=value_of(case, found)
            )


def value_of(case: Case, found: Flag) -> Fix:
    """The value, where only one can be meant."""
    what = f"Give {found.raw} a value or remove it."
    if found.name == "--spec-type" and "mtp" in model_text(case).lower():
        return replace_fix(case, found, f"{found.raw} draft-mtp", what)
    return Fix(text=what)


_NO_BLANKS = "Delete the spaces at the end of the line above."
_MEND: dict[CutOffCause, str] = {
    "comment": "Move the comment above the command.",
    "no sign": "End the line above with a backslash.",
    "empty line": "Delete the empty line.",
    "blanks": _NO_BLANKS,
    "blanks in batch": _NO_BLANKS,
    "wrong sign": "End the line above with ^.",
}


@rule("SD126", "error")
@when(parts="launch.notes")
def options_cut_off(case: Case) -> Iterator[Hit]:
    r"""Options on lines that are not part of the command.

    Why: the command ends where no backslash does, and at a comment: the server starts without the
    options below.
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


_OPTION_AND_MORE = lazy_re(r"(--?[A-Za-z][\w.-]*) [^']")
_JOINED = lazy_re(r"(--?[A-Za-z][\w.-]*) \S")
# a chart or a wrapper may join the words and take them apart again
SPLIT_NOWHERE = frozenset(
    ("compose", "kubernetes", "python", "dockerfile", "systemd", "quadlet", "shell", "command")
)


@rule("SD129", "warning", "catalogued", decides=True)
def option_and_value_in_one_word(case: Case) -> Iterator[Hit]:
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
    Good:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            command:
              - --model=Qwen/Qwen3-8B
              - --max-num-seqs=4
    Sources: python/cpython Lib/argparse.py (_parse_optional); ggml-org/llama.cpp common/arg.cpp
        (common_params_parse_ex)
    """
    launch = case.launch
    if launch is None:
        return
    words = (launch.model or "", *(stray.value or "" for stray in launch.strays))
    named = [match[1] for word in words if (match := _OPTION_AND_MORE.match(word))]
    known = [
        name
        for name in dict.fromkeys(named)
        if catalogue(case).find(name.replace("_", "-"), None) is not None
    ]
    if known:
        more = f" and {len(known) - 3} more" if len(known) > 3 else ""
        yield Hit(
            f"{', '.join(known[:3])}{more} and the value are one argument, which the server does "
            "not split",
            line=launch.line,
            severity="error"
            if (launch.form in SPLIT_NOWHERE or is_quoted(case)) and not launch.fork
            else None,
            fix=apart(case),
            sole=all(len((one.value or "").split()) == 2 for one in launch.strays),
        )


def apart(case: Case) -> Fix:
    """Each word an item of its own, where the form of the list is known."""
    what = "Pass the value as a separate item" + (
        ", or write OPTION=VALUE." if case.plan.engine != "llama-server" else "."
    )
    joined = [
        one
        for one in case.launch.strays
        if (word := _JOINED.match(one.value or "")) is not None
        and catalogue(case).find(word[1].replace("_", "-"), None) is not None
    ]
    fixes = [replace_fix(case, one, join_by_equals(case, one.value or ""), what) for one in joined]
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


def is_quoted(case: Case) -> bool:
    """Whether the chart is vLLM's own, which quotes each item of extraArgs."""
    container = case.launch.container
    return container is not None and container.chart == "production-stack"


_ON = ("true", "yes", "on", "enabled")


@rule("SD130", "error", "catalogued", versioned=True)
@when(parts="launch.notes")
def switch_given_a_value(case: Case) -> Iterator[Hit]:
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
        leave = f"Write {negated}." if has_opposite else f"Leave {name} out."
        place = next((one for one in flags(case) if one.raw == name), None)
        yield Hit(
            f"{name} takes no value: the server stops at '{word}'",
            flag=place,
            severity="warning" if case.launch.fork else None,
            fix=bare(case, place, negated if has_opposite else name, word, leave),
            versions="all catalogued releases",
            everywhere=True,
        )


def bare(case: Case, found: Flag | None, negated: str, word: str, leave: str) -> Fix:
    """The switch without the word, or switched off where the word says so and it can be."""
    on = word.lower() in _ON
    what = f"Leave '{word}' out." if on else leave
    if found is None or found.span is None or found.value_span is None or found.unresolved:
        return Fix(text=what)
    place = Span(start=found.span.start, end=max(found.span.end, found.value_span.end))
    text = found.raw if on else negated if negated != found.raw else ""
    return span_fix(case, place, text, what)


@rule("SD121", "warning", "catalogued")
def flag_given_twice(case: Case) -> Iterator[Hit]:
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
    for found in flags(case):
        earlier = first.setdefault(found.name, found)
        if (
            earlier is found
            or earlier.value == found.value
            or found.unresolved
            or earlier.unresolved
        ):
            continue
        if _is_override(case, earlier, found):
            first[found.name] = found
            continue
        option = catalogue(case).find(lookup_spelling(found)) if found.known else None
        if (
            earlier.origin != found.origin
            or option is None
            or option.many
            or (not option.takes_value and not {earlier.value, found.value} <= {None, "false"})
        ):
            continue
        if option.type in ("str", "flag") and option.choices is None and option.name in REPEATABLE:
            continue
        first[found.name] = found
        said = f"{found.raw} is set twice: {_text(found)} is used, {_text(earlier)} is not"
        yield Hit(
            said if option.takes_value else f"{earlier.raw} is undone by the later {found.raw}",
            flag=found,
            fix=together(case, earlier, found)
            if option.name in LISTS
            else drop_fix(
                case,
                earlier,
                f"Remove the first one ({_text(earlier)}), or the last if the first was meant."
                if option.takes_value
                else f"Remove {earlier.raw}, or {found.raw} if the first was meant.",
                safe=case.plan.engine in ("vllm", "sglang"),
            ),
        )


def together(case: Case, earlier: Flag, later: Flag) -> Fix:
    """Both values of an option that takes a list, in one."""
    words = dict.fromkeys(f"{earlier.value},{later.value}".split(","))
    what = f"Write {later.raw} {','.join(words)} once."
    first, last = drop_fix(case, earlier, what), set_fix(case, later, ",".join(words), what)
    both = bool(first.edits and last.edits)
    return Fix(text=what, edits=(*first.edits, *last.edits) if both else ())


def _is_override(case: Case, earlier: Flag, later: Flag) -> bool:
    """Whether the command sets anew what a macro or a list above it sets."""
    if case.launch.form != "llama-swap":
        return 0 < earlier.line < case.launch.line <= later.line
    given = [one.line for one in flags(case)]
    between = abs(given.index(later.line) - given.index(earlier.line))
    return later.line - earlier.line > 2 * between + 2  # other lines than the command's lie between


LISTS = ("--spec-type",)  # takes several values with commas between them
REPEATABLE = (
    "--lora",
    "--control-vector",
    "--override-kv",
    "--override-tensor",
    "--lora-scaled",
    "--allowed-origins",
    "--middleware",
)


def _text(found: Flag) -> str:
    return "no value" if found.value is None else found.value
