"""SGLang's speculation."""

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import integer, number
from advisor.rules.kit.fixes import AddedOption, add_fix, set_fix, span_fix, swap_fix
from advisor.rules.kit.relations import relate

TRIPLE = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")


@rule("SD228", "error", "sglang")
@when(methods="mtp eagle eagle3 draft_model")
def sglang_spec_triple(case: Case) -> Hits:
    """SGLang's three speculation numbers: some without the others, or more tokens than a tree has.

    Why: a part of the three stops the server, as do more tokens than steps and topk make.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
        --speculative-num-draft-tokens 4
    Good: with --speculative-num-steps 3 --speculative-eagle-topk 1 added
    Sources: sglang 0.5.9 to 0.5.23 server_args.py; sglang 0.5.16 and 0.5.22 eagle_utils.py
        (organize_draft_results)
    """
    given = [name for name in TRIPLE if case.flag(name) is not None]
    missing = [name for name in TRIPLE if name not in given]
    if given and missing:
        yield Hit(
            f"{', '.join(given)} without {' and '.join(missing)}: SGLang needs all three or none",
            flag=case.flag(given[0]) or case.spec_flag(),
            severity="warning" if case.unread() else None,
            fix=completion_fix(case, given, missing),
        )
    n, width, m = (number(case, name) or 0 for name in TRIPLE)
    most = 1 + width + (n - 1) * width**2  # each step goes on from the best `width` tokens
    if n > 0 and width > 1 and m > most:
        tokens = case.flag(TRIPLE[2])
        yield Hit(
            f"{n} steps with topk {width} make a tree of {most} tokens, not {m}: the server stops "
            "while it captures its graphs",
            flag=tokens,
            fix=set_fix(case, tokens, str(most), f"Use {TRIPLE[2]} {most} or fewer."),
        )


def completion_fix(case: Case, given: list[str], missing: list[str]) -> Fix:
    """The one that follows from the other two: n steps make n + 1 tokens to verify with topk 1."""
    what = "Give all three, for example 3, 1 and 4."
    steps, topk, tokens = (case.flag(name) for name in TRIPLE)
    depth, width, verified = (integer(one.value) if one else None for one in (steps, topk, tokens))
    if len(missing) != 1 or width not in (None, 1):
        return AddedOption(text=what)
    name = missing[0]
    follows = {
        TRIPLE[0]: verified - 1 if verified else None,
        TRIPLE[1]: 1,
        TRIPLE[2]: depth + 1 if depth else None,
    }[name]
    if not follows:
        return AddedOption(text=what)
    behind = tokens if name == TRIPLE[1] else topk
    return add_fix(case, behind, name, str(follows), f"Add {name} {follows}.")


@rule("SD229", "warning", "sglang")
@when(methods="mtp eagle eagle3")
def sglang_steps_draft_tokens(case: Case) -> Hits:
    """Draft tokens that do not match the steps, with topk 1.

    Why: a chain of n steps gives n + 1 tokens to verify; another number is changed or refused.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
        --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 1
    Good: with --speculative-num-draft-tokens 2 for --speculative-num-draft-tokens 1
    Sources: anubhavgupta start-mtp.sh; sgl-project/sglang#28312; sglang 0.5.23 server_args.py
    """
    steps, _, tokens = (case.flag(name) for name in TRIPLE)
    n, width, m = (number(case, name) for name in TRIPLE)
    if n is None or m is None or width not in (None, 1) or tokens is None or m == n + 1:
        return
    if steps is not None and n == m + 1:
        fix = swap_fix(case, steps, tokens, f"Exchange the two: {m} steps, {n} tokens.")
    else:
        fix = span_fix(case, tokens.value_span, str(n + 1), f"Use {TRIPLE[2]} {n + 1}.")
    yield Hit(f"{n} steps with topk 1 make {n + 1} tokens to verify, not {m}", flag=tokens, fix=fix)


@rule("SD233", "warning", "sglang", defect="sglang-draft-path-missing", unsure="info", at="spec")
@when(methods="mtp", parts="hybrid")
def sglang_draft_path_missing(case: Case) -> Hits:
    """NEXTN without a draft path on SGLang 0.5.10.post1.

    Why: the head of Qwen3.5 classes is not found: the server runs 3 to 40 times slower in silence.
    Bad (version=0.5.10): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm
        NEXTN
    Good (version=0.5.10): with --speculative-draft-model-path Qwen/Qwen3.6-35B-A3B-FP8 added
    """
    return relate(case, "SD233")


@rule("SD235", "warning", "sglang", defect="sglang-triton-graph-crash", unsure="silent")
@when(speculative=True)
def sglang_triton_graph_crash(case: Case) -> Hits:
    """MTP on SGLang 0.5.15's triton attention backend with CUDA graphs.

    Why: the mask buffer of the verify step is too small beyond a batch context: a crash.
    Bad (version=0.5.15): sglang serve --model-path nvidia/Qwen3.6-35B-A3B-NVFP4 --attention-backend
        triton --speculative-algorithm NEXTN
    Good (version=0.5.16): the same
    """
    return relate(case, "SD235")
