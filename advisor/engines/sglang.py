"""SGLang: `python3 -m sglang.launch_server`, speculation as steps, topk and draft tokens."""

from collections.abc import Mapping
from typing import ClassVar

from advisor.domain.nouns import AdvisorError, Flag, Launch, Plan
from advisor.domain.patterns import lazy_re
from advisor.engines import names
from advisor.engines.adapter import Adapter, HasHead
from advisor.engines.arguments.fields import (
    COUNT,
    DEPTH,
    RANKS,
    SHARE,
    Bounds,
    Extras,
    Field,
    Nouns,
    depth,
    drop,
    flag_of,
    human_integer,
    integer,
    last,
    number,
    text,
    write_number,
)

ALGORITHM, STEPS = "--speculative-algorithm", "--speculative-num-steps"
TOPK, TOKENS = "--speculative-eagle-topk", "--speculative-num-draft-tokens"
DRAFT = "--speculative-draft-model-path"
NO_RADIX, NO_OVERLAP = "--disable-radix-cache", "--disable-overlap-schedule"
STRATEGIES = ("--mamba-radix-cache-strategy", "--mamba-scheduler-strategy")
ADAPTIVE, ADAPTIVE_CONFIG = "--speculative-adaptive", "--speculative-adaptive-config"
ADAPTIVE_FILE = "adaptive.json"  # the option takes a path, no JSON
TIERS_SINCE = "0.5.14"  # tiers by batch size and k = 0; before, one list of steps for all
HEADS = ("mtp", "eagle", "eagle3")  # what SGLang adapts
SPEC_V2 = "SGLANG_ENABLE_SPEC_V2"
# groups of the ranks, not replicas, of which all limits are sums (0.5.9 model_runner.py,
# _handle_data_parallelism; 0.5.23 parallel_hook.py: the first two are the third's older spelling)
DP_SIZE, DP_ATTENTION, GROUPS = "--dp-size", "--enable-dp-attention", "--attn-dp-size"
ALGORITHMS = {
    "mtp": "NEXTN", "eagle": "EAGLE", "eagle3": "EAGLE3", "draft_model": "STANDALONE",
    "ngram": "NGRAM", "dflash": "DFLASH", "dspark": "DSPARK",
}  # fmt: skip
METHODS = {algorithm: method for method, algorithm in ALGORITHMS.items()}
METHODS |= {"MTP": "mtp", "FROZEN_KV_MTP": "mtp"}
UNMODELLED = ("UNO",)  # the server knows it, this program does not
# drafted at once: only the number of tokens to verify is said (z-lab/dflash, README)
BLOCKS = ("ngram", "dflash")
# with topk 1 the steps count, whatever --speculative-num-draft-tokens says (0.5.9 to 0.5.23
# server_args.py, arg_groups/speculative_hook.py: _handle_eagle_family)
CHAINS = (*HEADS, "draft_model")
# its draft tokens, bonus token excluded: other sizes than the checkpoint's are refused as a number
# of tokens to verify (0.5.23 arg_groups/speculative_hook.py)
BLOCK = "--speculative-dspark-block-size"
# k of the server's own choice: steps 3, topk 1, tokens 4; of EAGLE on Llama and Grok 5, 4, 8
# (0.5.9 to 0.5.23 auto_choose_speculative_params); of a block drafter its config.json says it
AUTO, AUTO_TREE, TREES = 3, 7, lazy_re(r"(?i)llama(?!-?4)|vicuna|grok")


class SglangAdapter(Adapter):
    """Reads and writes launches of SGLang."""

    name = "sglang"
    UNDERSCORES = False
    PROGRAM = ("python3", "-m", "sglang.launch_server")  # Debian has no python
    ENTRY = lazy_re(r"(\S*/)?python[\d.]* -m sglang\.launch_server|(\S*/)?sglang serve")
    MODEL_FLAGS = ("--model-path",)
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "--served-model-name": Field("served_model_name", text),
        "--quantization": Field("quantization", text),
        "--tp-size": Field("tp", integer, skip=1, bounds=RANKS),
        "--pp-size": Field("pp", integer, skip=1, bounds=RANKS),
        DP_SIZE: Field("dp", integer, skip=1, bounds=RANKS),
        "--context-length": Field("max_model_len", human_integer, bounds=COUNT),
        "--max-running-requests": Field("max_num_seqs", integer, bounds=COUNT),
        "--chunked-prefill-size": Field("max_num_batched_tokens", integer, bounds=(-1, COUNT[1])),
        "--mem-fraction-static": Field("memory_fraction", number, write_number, bounds=SHARE),
        "--kv-cache-dtype": Field("kv_cache_dtype", text),
        "--attention-backend": Field("attention_backend", text),
        "--reasoning-parser": Field("reasoning_parser", text),
        "--tool-call-parser": Field("tool_call_parser", text),
        "--host": Field("host", text),
        "--port": Field("port", integer),
    }
    COUNTS: ClassVar[Mapping[str, Bounds]] = {STEPS: DEPTH, TOKENS: DEPTH, DP_SIZE: RANKS}

    # ------------------------------------------------------------ reading

    def _read_meaning(
        self, launch: Launch, nouns: Nouns, extra: Extras, env: dict[str, str], own_mtp: HasHead
    ) -> None:
        model = launch.model or ""
        if (DP_ATTENTION, None) in extra and "dp" in nouns:
            extra.append((DP_SIZE, str(nouns.pop("dp"))))
        _take_switch(extra, NO_RADIX, nouns, "prefix_caching")
        _take_switch(extra, NO_OVERLAP, nouns, "async_scheduling")
        for name in STRATEGIES:
            if (value := _take(extra, name)) is not None:
                nouns["mamba_strategy"] = value
        word = last(extra, ALGORITHM)
        if word is None:
            return
        method = METHODS.get(word.upper())
        if method is None and "${" not in word:
            # NONE, a plugin's own, or one that is not there: nothing that is judged
            if word.upper() == "NONE":
                drop(extra, ALGORITHM)
            return
        draft = _take(extra, DRAFT)
        drop(extra, ALGORITHM)
        if method is None or (
            method == "eagle" and own_mtp(model) and (draft is None or draft == model)
        ):
            method = "mtp"
        nouns["method"] = method
        nouns["draft_model"] = draft
        if word.upper() not in METHODS:
            extra.append((ALGORITHM, word))
        nouns["k"] = self._read_k(extra, method, model)
        if env.get(SPEC_V2) == "1" and self.needs_spec_v2(launch.engine_version):
            del env[SPEC_V2]

    def _read_k(self, extra: Extras, method: str, model: str) -> int:
        """Draft tokens beyond the bonus token; steps and topk that say more stay."""
        block = depth(last(extra, BLOCK))
        if method == "dspark" and block is not None:
            drop(extra, BLOCK)
            return block
        steps, topk, tokens = (depth(last(extra, name)) for name in (STEPS, TOPK, TOKENS))
        chain = method in CHAINS and (topk or 1) == 1  # the server sets tokens to steps + 1
        if steps is not None and (chain or tokens is None):
            k = steps
        elif tokens is not None:
            k = max(tokens - 1, 0)
        elif method == "ngram":
            return 0
        else:
            tree = TREES.search(model) if method in ("eagle", "eagle3") else method not in CHAINS
            return AUTO_TREE if tree else AUTO
        if tokens is not None and method == "ngram":
            drop(extra, TOKENS)
        elif tokens is not None and (topk or 1) == 1 and steps in (None, k):
            drop(extra, STEPS, TOPK, TOKENS)
        return k

    # ------------------------------------------------------------ writing

    def canonical(self, plan: Plan) -> Plan:
        """Radix cache and overlap have no on-switch; a hybrid with MTP gets a strategy."""
        update: dict[str, object] = {}
        if plan.prefix_caching:
            update["prefix_caching"] = None
        if plan.async_scheduling:
            update["async_scheduling"] = None
        if plan.mamba_strategy is None and self.needs_extra_buffer(plan):
            update["mamba_strategy"] = "extra_buffer"
        if plan.k_schedule:  # it stands in a file, which the words name
            update["k_schedule"] = ()
            update["k"] = max(k for _, _, k in plan.k_schedule)
            update["extra"] = (*plan.extra, (ADAPTIVE, None), (ADAPTIVE_CONFIG, ADAPTIVE_FILE))
        return plan.replace(**update) if update else plan

    def to_launch(self, plan: Plan) -> Launch:
        """The launch of a plan. Raises AdvisorError where one k only is taken, too."""
        if plan.k_schedule and plan.method not in HEADS:
            raise AdvisorError(f"SGLang adapts k for {', '.join(HEADS)} only, not {plan.method}")
        if plan.k_schedule and not self.catalogue.at_least(plan.engine_version, TIERS_SINCE):
            raise AdvisorError(f"SGLang takes a k per batch size from {TIERS_SINCE} on")
        return super().to_launch(plan)

    def needs_extra_buffer(self, plan: Plan) -> bool:
        """Whether a hybrid with MTP and radix cache dies unless told extra_buffer."""
        if plan.method == "none" or plan.prefix_caching is False or plan.model is None:
            return False
        return bool(
            names.hybrid(plan.model)
            and self.catalogue.behaviour("extra_buffer_must_be_asked", plan.engine_version)
        )

    def needs_spec_v2(self, version: str | None) -> bool:
        """Whether the release reads SGLANG_ENABLE_SPEC_V2 and has it off by default."""
        return bool(self.catalogue.behaviour("spec_v2_env", version) == "default off")

    def _write_meaning(self, plan: Plan, version: str | None, env: dict[str, str]) -> Extras:
        rows: Extras = []
        if plan.prefix_caching is False:
            rows.append((NO_RADIX, None))
        if plan.async_scheduling is False:
            rows.append((NO_OVERLAP, None))
        if plan.mamba_strategy is not None:
            options = (self.catalogue.option(one, version) for one in STRATEGIES)
            name = next((one.name for one in options if one and not one.removed), None)
            if name is None:
                raise AdvisorError(f"sglang {version} has no option for the mamba strategy")
            rows.append((name, plan.mamba_strategy))
        if plan.method != "none":
            rows += self._write_speculation(plan, version)
            if self.needs_spec_v2(version) and plan.method != "ngram":
                env[SPEC_V2] = "1"
        return rows

    def _write_speculation(self, plan: Plan, version: str | None) -> Extras:
        given = {name for name, _ in plan.extra}
        rows: Extras = []
        if ALGORITHM not in given:
            rows.append((ALGORITHM, self._algorithm(plan.method, version)))
        if plan.draft_model is not None:
            rows.append((DRAFT, plan.draft_model))
        if plan.k and not given & {STEPS, TOPK, TOKENS, BLOCK}:
            if plan.method == "dspark":
                return [*rows, (BLOCK, str(plan.k))]
            if plan.method not in BLOCKS:
                rows += [(STEPS, str(plan.k)), (TOPK, "1")]
            rows.append((TOKENS, str(plan.k + 1)))
        return rows

    def _algorithm(self, method: str, version: str | None) -> str:
        since = (self.catalogue.notes.get("methods_since") or {}).get(method)
        if since and not self.catalogue.at_least(version, since):
            raise self.lacks(f"path for the method '{method}'", since, version)
        return ALGORITHMS[method]

    def _write_model(self, model: str) -> tuple[Flag, ...]:
        return (flag_of("--model-path", model),)


def _take(extra: Extras, name: str) -> str | None:
    value = last(extra, name)
    drop(extra, name)
    return value


def _take_switch(extra: Extras, name: str, nouns: Nouns, noun: str) -> None:
    """An off-switch that is on means the noun is False; one that is off says nothing."""
    if (name, None) in extra:
        drop(extra, name)
        nouns[noun] = False
