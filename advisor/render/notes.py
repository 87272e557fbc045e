"""A note for each option of a launch, a finding on it first, and the rule behind it."""

from collections.abc import Sequence

from advisor.advice.decide import crowds, paid_share
from advisor.advice.plans.checkpoints import PLACEHOLDER_ORG, own_name
from advisor.domain.nouns import Advice
from advisor.engines.traits import LOOPBACK, traits

MUCH = 0.25  # of TPOT's weight, from which on it is said that it counts less


def _by_option(text: str) -> dict[str, tuple[str, str]]:
    """Option -> (code of the rule behind it or "", why it is written out)."""
    notes: dict[str, tuple[str, str]] = {}
    for line in text.replace("\n  ", " ").splitlines():
        head, _, why = line.partition(": ")
        options = [word for word in head.split() if word.startswith("-")]
        notes |= dict.fromkeys(options, (head.removeprefix(" ".join(options)).strip(), why))
    return notes


NOTES = _by_option("""\
--speculative-config SD404: the model's own draft head; k, the draft tokens beyond the bonus token,
  within what sweeps support
--speculative-algorithm SD228: the model's own draft head; its three numbers belong together
--speculative-num-steps SD410: draft steps = k, after the engine's profiles
--speculative-num-draft-tokens SD229: with one branch: steps + 1
--spec-type SD213: the draft head inside the GGUF, which must have kept it
--spec-draft-n-max SD405: k, the draft tokens a step
--tensor-parallel-size SD216: divides the attention heads
--max-model-len --context-length SD311: prompt + answer with room to spare, more where that costs no
  slot
--ctx-size SD311: the total over all slots
--parallel SD308: slots, as many as requests at once; those beyond share the context
--kv-unified: the slots share the context, so that one request may take all of it
--max-num-seqs SD308: written out: the default differs between versions; at least the requests at
  once
--max-running-requests SD236: written out: with speculation the engine would set 48
--max-num-batched-tokens SD316: written out: the default differs between versions and GPUs
--chunked-prefill-size: written out: the default differs between GPUs
--gpu-memory-utilization SD305: written out: the default changed between versions; the rest is for
  the system
--mem-fraction-static SD304: written out: speculation takes its share of the KV pool
--no-enable-prefix-caching --disable-prefix-caching --disable-radix-cache SD202: off on purpose:
  with MTP on a hybrid answers on cache hits can be wrong, and states take memory
--no-cache-prompt: off on purpose: the prompts share no prefix
--mamba-scheduler-strategy --mamba-radix-cache-strategy SD230: a hybrid model needs it with
  speculation at this version
--flash-attn SD120: with a value: newer builds refuse the bare switch
--jinja: the chat template: drafts are accepted more often on /v1/chat/completions
--reasoning-parser: splits thinking from the answer
--tool-call-parser SD219: the parser of this model family
--trust-remote-code: configuration and tokenizer of this model are code of its repository: read it
  first
""")
# the same for a plan with a published drafter in place of the model's own head
DRAFTER_NOTES = _by_option("""\
--speculative-config SD269: a published drafter of this very model; k, its draft tokens beyond the
  bonus token
--speculative-algorithm SD269: a published drafter of this very model
--speculative-num-steps SD228: draft steps = k; the three numbers belong together
--no-enable-prefix-caching --disable-radix-cache SD202: off on purpose: the drafter's publisher
  serves it so, or prompts share no prefix
""")
# the same for a plan that does not draft
PLAIN_NOTES = _by_option("""\
--no-enable-prefix-caching --disable-prefix-caching --disable-radix-cache SD403: off on purpose:
  prompts share too little for the states that it would keep
""")
SHM = "SD240: workers talk through /dev/shm; the default of 64 MB is too small"
STARTUP = "SD241: download, load, compile and graph capture come before the first answer"
ROLLOUT = "a rolling update would need a second GPU"
IMAGE = "SD238: pinned, and known to exist"
PLACEHOLDER = "replace: no public checkpoint of this quantisation is known here"


def placeholder(advice: Advice) -> str | None:
    """The word of the launch for a checkpoint that nobody is known to publish, or None."""
    return next((word for word in advice.launch.argv if word.startswith(PLACEHOLDER_ORG)), None)


def unit_note(advice: Advice, unit: Sequence[str]) -> str:
    """The note for an option with its values, or ""; a placeholder among them speaks first."""
    if any(word.startswith(PLACEHOLDER_ORG) for word in unit):
        return PLACEHOLDER
    name = unit[0].split("=", 1)[0]
    for finding in advice.plan_findings:  # not those of a candidate with other limits
        if finding.flag is not None and finding.flag == name:
            return f"{finding.code}: {finding.message}"
    plan = advice.plan
    published = DRAFTER_NOTES if plan.draft_model is not None and plan.method != "mtp" else {}
    own = PLAIN_NOTES if plan.method == "none" else published
    code, text = own.get(name) or NOTES.get(name, ("", ""))
    return f"{code}: {text}" if code else text


def unknown_checkpoint(advice: Advice) -> str:
    """That the launch names a checkpoint nobody is known to publish, and what to do about it."""
    quant = advice.facts.quant.id if advice.facts.quant is not None else "this quantisation"
    own = own_name(advice.request)
    if own is None:
        return f"no {quant} checkpoint is known: see its model card"
    head = " with its MTP head" if advice.plan.method == "mtp" else ""
    return f"no {quant} file of {own} is known: convert it{head}"


def reach(advice: Advice) -> str:
    """Who reaches the launch as it is printed, and how to ask for a key where that is everyone."""
    if is_local(advice):
        return "reachable from this machine only"
    variable = traits(advice.plan.engine).api_key_env
    return f"open to the network: {f'set {variable}' if variable else 'pass --api-key'}"


def is_local(advice: Advice) -> bool:
    """Whether the launch answers its own machine alone."""
    return advice.plan.host == LOOPBACK or (
        advice.plan.host is None and traits(advice.plan.engine).listens_locally
    )


def goal_note(advice: Advice) -> str:
    """That a balanced goal looks at the whole answer where the first token comes much later."""
    estimate, goal = advice.estimate, advice.facts.goal or advice.request.goal
    if estimate is None or advice.candidate is None or goal != "balanced":
        return ""
    if paid_share(estimate) < MUCH:
        return ""
    if crowds(estimate):
        return "; judged by output tok/s: with speculation more requests wait"
    return "; judged by output tok/s, not TPOT: the first token probably comes much later"
