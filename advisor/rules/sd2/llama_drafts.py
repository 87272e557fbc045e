"""What llama-server's drafting context takes over from the target's."""

from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule, when
from advisor.rules.kit.case import flag, has_switch
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.releases import affects


@rule("SD281", "error", "llama-server", defect="llama-mtp-embeddings")
@when(methods="mtp", options="--embedding --rerank")
def llama_mtp_embeddings(case: Case) -> Iterator[Hit]:
    """MTP on a server of embeddings or reranking.

    Why: the MTP context took over the pooling of the target, and its graph has no tensor to pool:
    the server ends in GGML_ASSERT "missing result_norm/result_embd tensor" while it loads.
    Bad (version=b10262): llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf --embeddings --spec-type
        draft-mtp --parallel 1
    Good (version=b10605): llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf --embeddings
        --spec-type draft-mtp --parallel 1
    """
    given = flag(case, "--embedding", "--rerank")
    if given is None or given.unresolved or not has_switch(case, given.name):
        return
    if affects("llama-mtp-embeddings", case) is not False:
        yield Hit(
            f"{given.raw} with MTP: the server aborts while it loads (missing "
            "result_norm/result_embd tensor)",
            flag=given,
            fix=drop_fix(
                case,
                given,
                f"Remove {given.raw} and serve it by a second server, or use b10605 or newer.",
            ),
        )


@rule("SD282", "warning", "llama-server", defect="llama-draft-kv-on-host")
@when(methods="mtp draft_model", options="--kv-offload")
def llama_draft_kv_on_host(case: Case) -> Iterator[Hit]:
    """Drafting with the KV cache in system memory.

    Why: the drafts' own cache follows --no-kv-offload, and is copied to the device for each draft
    token: 19.2 against 27.2 tok/s at 65,536 tokens with a cache of the drafts in video memory.
    Bad: llama-server -m /models/Qwen3.8-27B-MTP-Q4_K_M.gguf --parallel 1 --no-kv-offload
        --spec-type draft-mtp --spec-draft-n-max 4
    Good: llama-server -m /models/Qwen3.8-27B-MTP-Q4_K_M.gguf --parallel 1 --spec-type draft-mtp
        --spec-draft-n-max 4
    """
    given = flag(case, "--kv-offload")
    if given is None or given.unresolved or has_switch(case, "--kv-offload"):
        return
    yield Hit(
        f"{given.raw} keeps the drafts' KV cache in system memory too, from where it is copied for "
        "each draft token (-30 % where it was measured)",
        flag=given,
        fix=drop_fix(
            case, given, f"Remove {given.raw} and shorten the context, or do not speculate."
        ),
    )
