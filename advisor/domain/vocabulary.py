"""The words that answers and files share: engines, methods, goals, metrics, decisions."""

from typing import Literal, get_args

from advisor.domain.records import NamedTuple

Engine = Literal["vllm", "sglang", "llama-server", "ik_llama.cpp"]
Method = Literal["none", "mtp", "eagle", "eagle3", "draft_model", "ngram", "dflash", "dspark"]

DraftMethod = Literal[  # those for which a launch can be proposed
    "mtp", "eagle", "eagle3", "dflash", "dflash2", "dspark", "ngram", "suffix"
]

FORMS: dict[str, Method] = {"dflash2": "dflash", "suffix": "ngram"}  # word of a form -> its method
Basis = Literal["measured", "interpolated", "extrapolated", "physics"]
Severity = Literal["error", "warning", "info"]
Goal = Literal["throughput", "tpot", "ttft", "balanced"]
Decision = Literal["on", "off", "measure"]
Effect = Literal["veto", "loss", "caution", "k_max", "support"]

Workload = Literal[
    "chat", "code", "math", "agent", "rag", "summarization",
    "creative", "mixed", "random", "reasoning", "factual", "voice",
]  # fmt: skip

Metric = Literal["output_tok_s", "request_tok_s", "tpot", "ttft"]

# nvlink-pairs: bridges join cards two by two, and PCIe the pairs
Interconnect = Literal["none", "pcie", "nvlink", "nvlink-pairs", "roce", "ethernet"]
METHODS: tuple[Method, ...] = get_args(Method)


class RuleRow(NamedTuple):
    """What the index knows of a rule without importing it: its code, name and what it asks for."""

    code: str
    slug: str
    severity: Severity
    engines: tuple[str, ...]  # empty: any engine
    needs: tuple[str, ...]
    speculative: bool  # only for plans that speculate
    module: str  # that defines it, below advisor.rules
    # it says nothing unless the method is one of these,
    methods: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # one of these options is given,
    parts: tuple[str, ...] = ()  # and these parts of the case are true
    decides: bool = False  # it can give an error or an effect on the decision
