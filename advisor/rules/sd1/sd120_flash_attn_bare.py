from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.domain.versions import parse_release
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, replace_fix
from advisor.rules.kit.releases import candidates, is_newest, release

BARE = "4227c9be4"  # the catalogued build whose -fa is a switch
BARE_UNTIL = "b6166"  # newest catalogued build whose -fa is a switch


@rule(
    severity="error",
    engines=("llama-server",),
    versioned=True,
    sources=("ggml-org/llama.cpp#22938", "llama-server 0.5.0, run"),
)
def flash_attn_bare(case: Case) -> Iterator[Hit]:
    """A bare -fa or --flash-attn, which newer builds take only with on, off or auto.

    Why: the next flag is eaten as its value and the server exits.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf -fa --jinja
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf -fa on --jinja
    """
    found = flag(case, "--flash-attn")
    at, last = release(case), parse_release(BARE_UNTIL)
    if found is None or found.origin != "cli" or found.value or found.unresolved:
        return
    if at is not None and last is not None and at <= last:
        return
    # a server of 2025 took it bare, which only the build tells
    yield Hit(
        f"{found.raw} needs a value: on, off or auto",
        flag=found,
        fix=replace_fix(case, found, f"{found.raw} on", f"Write {found.raw} on.", safe=True),
        versions="builds of 2026 (b8643 and later)",
        everywhere=BARE not in candidates(case, found) or is_newest(case),
    )
