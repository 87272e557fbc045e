import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.engines.base import PASSED_ENV
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch, model_text, unread
from advisor.rules.kit.fixes import add_fix

WHAT = "Add --tool-call-parser qwen3_coder (or the one of your model)."


@rule(
    severity="error",
    engines=("vllm",),
    sources=(
        "vLLM docs, tool calling: --enable-auto-tool-choice needs --tool-call-parser",
        "vllm 0.19.1 to 0.33.0 cli_args.py",
        "vllm-project/vllm#55754",
    ),
)
def tool_parser_pair(case: Case) -> Iterator[Hit]:
    """--enable-auto-tool-choice and --tool-call-parser, one without the other.

    Why: without a parser the server refuses to start; a parser alone leaves tool_choice "auto"
    refused at every request.
    Bad: vllm serve Qwen/Qwen3.6-27B --enable-auto-tool-choice
    Good: vllm serve Qwen/Qwen3.6-27B --enable-auto-tool-choice --tool-call-parser qwen3_coder
    """
    auto, parser = flag(case, "--enable-auto-tool-choice"), flag(case, "--tool-call-parser")
    if has_switch(case, "--enable-auto-tool-choice") and parser is None:
        yield Hit(
            "--enable-auto-tool-choice needs --tool-call-parser: the server refuses to start",
            flag=auto,
            severity="warning" if unread(case) else None,
            fix=add_fix(case, auto, "--tool-call-parser", "qwen3_coder", WHAT)
            if re.search(r"qwen3\.[5-9]|qwen3-(coder|next)", model_text(case).lower())
            else Fix(text=WHAT),
        )
    elif parser is not None and auto is None and PASSED_ENV not in case.launch.notes:
        yield Hit(
            '--tool-call-parser without --enable-auto-tool-choice: tool_choice "auto" is refused',
            flag=parser,
            severity="warning",
            fix=add_fix(
                case, parser, "--enable-auto-tool-choice", None, "Add --enable-auto-tool-choice."
            ),
        )
