from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags
from advisor.rules.kit.fixes import drop_fix, set_fix
from advisor.rules.kit.flags import catalogue, lookup_spelling


@rule(severity="warning", engines="catalogued")
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
