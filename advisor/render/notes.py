"""A short note for each option of a launch that is not obvious, and the rule behind it.

A finding on the option speaks first; else the standing note of the option. Codes are those of `advisor rules`.
"""

from __future__ import annotations

from advisor.types import Advice

# option -> (code of the rule behind it or "", why it is written out)
NOTES: dict[str, tuple[str, str]] = {
    "--speculative-config": ("", "the model's own draft head; k counts draft tokens beyond the bonus token"),
    "--speculative-algorithm": ("", "the model's own draft head; no second checkpoint"),
    "--speculative-num-steps": ("", "draft steps = k"),
    "--speculative-eagle-topk": ("", "one branch: draft tokens = steps + 1"),
    "--spec-type": ("", "the draft head inside the GGUF"),
    "--spec-draft-n-max": ("", "k, the draft tokens a step"),
    "--max-model-len": ("", "prompt + answer with room to spare; more would only reserve memory"),
    "--context-length": ("", "prompt + answer with room to spare; more would only reserve memory"),
    "--ctx-size": ("", "total over all slots"),
    "--parallel": ("", "slots: at least the requests at once"),
    "--max-num-seqs": ("", "written out: the default differs between versions; at least the requests at once"),
    "--max-running-requests": ("", "written out: with speculation the engine would cap it at 48"),
    "--max-num-batched-tokens": ("", "written out: the default differs between versions and GPUs"),
    "--chunked-prefill-size": ("", "written out: the default differs between GPUs"),
    "--gpu-memory-utilization": ("", "written out: the default changed between versions"),
    "--mem-fraction-static": ("", "written out: room for the draft's buffers and the graphs"),
    "--no-enable-prefix-caching": ("", "off on purpose: on hybrid models it costs hit rate and safety with MTP"),
    "--disable-radix-cache": ("", "off on purpose: on hybrid models it costs memory with MTP"),
    "--mamba-scheduler-strategy": ("", "hybrid models need it with speculation at this version"),
    "--mamba-radix-cache-strategy": ("", "hybrid models need it with speculation at this version"),
    "--reasoning-parser": ("", "splits thinking from the answer"),
    "--host": ("", "inside a container the loopback address reaches nobody"),
}


def note_for(advice: Advice, option: str) -> str:
    """The note for one option as written, "" where it needs none."""
    name = option.split("=", 1)[0]
    for finding in advice.findings:
        if finding.flag is not None and finding.flag == name:
            return f"{finding.code}: {finding.message}"
    code, text = NOTES.get(name, ("", ""))
    return f"{code}: {text}" if code else text
