import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.engines.base import CUT_OFF
from advisor.rules import Hit, rule

_CONTINUE = "End the line above with a backslash."
_MEND = {
    "a comment": "Move the comment above the command.",
    "an empty": "Delete the empty line.",
    "spaces": "Delete the spaces at the end of the line above.",
    "cmd": "End the line above with ^.",
}


@rule(
    severity="error",
    sources=(
        "https://www.gnu.org/software/bash/manual/html_node/Escape-Character.html",
        "https://www.shellcheck.net/wiki/SC1143",
    ),
)
def options_cut_off(case: Case) -> Iterator[Hit]:
    r"""Options on lines that are not part of the command.

    Why: without a backslash at the line's end the command ends there, and a comment runs to the
    line's end whatever stands in it. The server starts without the options below; the shell takes
    the next line for a command of its own.
    Bad:
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 \
          # --enforce-eager \
          --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good:
        # --enforce-eager
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 \
          --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    for note in case.launch.notes:
        if not note.startswith(CUT_OFF):
            continue
        said, _, cause = note.removeprefix(CUT_OFF).strip().partition(": ")
        line = re.search(r"from line (\d+) on", said)
        yield Hit(
            f"the server starts without {said}: {cause}",
            line=int(line.group(1)) if line else 0,
            severity="warning" if case.launch.form == "document" else None,
            fix=Fix(
                text=next((do for word, do in _MEND.items() if cause.startswith(word)), _CONTINUE)
            ),
        )
