import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.policy import sources


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    sources=sources("regime", "windows_tp"),
)
def tp_on_windows(case: Case) -> Iterator[Hit]:
    r"""Tensor parallelism on Windows.

    Why: without peer-to-peer access the CPU relays every all-reduce; TP 2 ran at about 7 tok/s.
    Bad: vllm serve 'C:\models\Qwen3.6-35B-A3B-AWQ' --tensor-parallel-size 2 --max-num-seqs 4
    Good: vllm serve 'C:\models\Qwen3.6-35B-A3B-AWQ' --max-num-seqs 4
    """
    launch = case.launch
    if launch is None or case.plan.tp < 2:
        return
    script = launch.form in ("batch", "powershell")
    if script or re.match(r"[A-Za-z]:\\", launch.model or case.plan.model or ""):
        yield Hit(
            f"TP {case.plan.tp} on Windows: the all-reduce is relayed by the CPU (about 7 tok/s "
            f"were measured at TP 2)",
            flag=flag(case, "--tensor-parallel-size", "--tp-size"),
            fix=Fix(text="Use TP 1, or Linux."),
        )
