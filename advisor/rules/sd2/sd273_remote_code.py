from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, flags, unread
from advisor.rules.kit.fixes import add_fix
from advisor.rules.kit.models import base_name, remote_code_kind

ROW = table("compatibility")["needs_remote_code"]
OPTION = "--trust-remote-code"


@rule(severity="error", engines=("vllm", "sglang"), sources=tuple(ROW["sources"]))
def remote_code(case: Case) -> Iterator[Hit]:
    """A model that is loaded by code of its own repository, without --trust-remote-code.

    Why: neither engine runs that code unasked: the server stops with "requires you to execute the
    configuration file" or "contains custom code".
    Bad: vllm serve moonshotai/Kimi-K2-Instruct --tensor-parallel-size 8
    Good: vllm serve moonshotai/Kimi-K2-Instruct --tensor-parallel-size 8 --trust-remote-code
    """
    name = base_name(case.launch.model or "")
    if not name or case.launch.emitted or flag(case, OPTION) is not None:
        return
    if name.endswith("-gguf") or ".gguf" in (case.launch.model or "").lower():
        return
    # SGLang has classes of its own for some of them, and documents launches without the option
    sure = case.plan.engine == "vllm" and not unread(case)
    kind = remote_code_kind(name, case.plan.engine)
    if kind is not None:
        yield Hit(
            f"{case.launch.model} is loaded by code of its repository, which needs {OPTION}",
            flag=flag(case, "--model", "--model-path"),
            severity=kind if sure else "warning",
            fix=add_fix(
                case,
                next((one for one in flags(case) if one.raw.startswith("--")), None),
                OPTION,
                None,
                f"Add {OPTION} after reading that code.",
            ),
        )
