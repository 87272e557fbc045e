"""vLLM: `vllm serve MODEL --options`, speculation as one JSON option."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from advisor.domain.nouns import Container, Launch, Plan
from advisor.domain.patterns import lazy_re
from advisor.engines.adapter import Adapter, HasHead
from advisor.engines.arguments import speculative_json as spec
from advisor.engines.arguments.fields import (
    COUNT,
    DEPTH,
    RANKS,
    SHARE,
    Bounds,
    Extras,
    Field,
    Nouns,
    human_integer,
    integer,
    number,
    switch,
    text,
    write_number,
    write_switch,
)

CONFIG = "--speculative-config"
ADAPTIVE = f"{CONFIG}.enable_adaptive_verification"
SHORTHAND = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
AUTO_TOOLS, TOOL_PARSER = "--enable-auto-tool-choice", "--tool-call-parser"


class VllmAdapter(Adapter):
    """Reads and writes launches of vLLM."""

    name = "vllm"
    PROGRAM = ("vllm", "serve")
    ENTRY = lazy_re(
        r"(\S*/)?vllm serve|(\S*/)?python[\d.]* -m "
        r"vllm\.entrypoints\.(openai\.api_server|api_server|cli\.main serve)"
    )
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "--served-model-name": Field("served_model_name", text),
        "--quantization": Field("quantization", text),
        "--tensor-parallel-size": Field("tp", integer, skip=1, bounds=RANKS),
        "--pipeline-parallel-size": Field("pp", integer, skip=1, bounds=RANKS),
        "--data-parallel-size": Field("dp", integer, skip=1, bounds=RANKS),
        "--max-model-len": Field("max_model_len", human_integer, bounds=COUNT),
        "--max-num-seqs": Field("max_num_seqs", human_integer, bounds=COUNT),
        "--max-num-batched-tokens": Field("max_num_batched_tokens", human_integer, bounds=COUNT),
        "--gpu-memory-utilization": Field("memory_fraction", number, write_number, bounds=SHARE),
        "--kv-cache-dtype": Field("kv_cache_dtype", text),
        "--enable-prefix-caching": Field("prefix_caching", switch, write_switch),
        "--async-scheduling": Field("async_scheduling", switch, write_switch),
        "--attention-backend": Field("attention_backend", text),
        "--reasoning-parser": Field("reasoning_parser", text),
        TOOL_PARSER: Field("tool_call_parser", text),
        "--host": Field("host", text),
        "--port": Field("port", integer),
    }
    COUNTS: ClassVar[Mapping[str, Bounds]] = {f"{CONFIG}.num_speculative_tokens": DEPTH}

    def _fork(self, version_text: str | None, container: Container | None) -> str | None:
        if "ascend" in (version_text or "").lower():
            return "vllm-ascend"
        return super()._fork(version_text, container)

    # ------------------------------------------------------------ reading

    def _read_meaning(
        self, launch: Launch, nouns: Nouns, extra: Extras, env: dict[str, str], own_mtp: HasHead
    ) -> None:
        config, rest = speculative_config(extra)
        extra[:] = rest
        if config:
            meaning, left = spec.read(config, launch.model or "", own_mtp)
            nouns.update(meaning)
            extra += [(f"{CONFIG}.{key}", json.dumps(value)) for key, value in left.items()]
        if "tool_call_parser" in nouns:
            if (AUTO_TOOLS, None) in extra:
                extra.remove((AUTO_TOOLS, None))
            elif not any(name == AUTO_TOOLS for name, _ in extra):
                extra.append((AUTO_TOOLS, "false"))

    # ------------------------------------------------------------ writing

    def _write_meaning(self, plan: Plan, version: str | None, env: dict[str, str]) -> Extras:
        rows: Extras = []
        if plan.tool_call_parser is not None and AUTO_TOOLS not in dict(plan.extra):
            rows.append((AUTO_TOOLS, None))
        if plan.method != "none":
            rows.append((CONFIG, json.dumps(self._config(plan, version), separators=(",", ":"))))
        return rows

    def _is_consumed(self, name: str) -> bool:
        return name.startswith(CONFIG + ".")

    def _config(self, plan: Plan, version: str | None) -> dict[str, Any]:
        config = spec.write(plan)
        config |= {
            name[len(CONFIG) + 1 :]: json.loads(value or "null")
            for name, value in plan.extra
            if self._is_consumed(name)
        }
        config = {key: value for key, value in config.items() if value is not None}
        if "method" in config and config["method"] not in self._methods(version):
            word = config["method"]
            since = next((v for v in self.versions if word in self._methods(v)), None)
            raise self.lacks(f"path for the method '{word}'", since, version)
        if plan.k_schedule and not self._schedules(version):
            since = next(filter(self._schedules, self.versions))
            raise self.lacks("path for a k schedule per batch size", since, version)
        return config

    def _methods(self, version: str | None) -> Sequence[str]:
        field = self.catalogue.json_field("SpeculativeConfig", "method", version) or {}
        return field.get("choices") or ()

    def _schedules(self, version: str | None) -> bool:
        return spec.SCHEDULE in self.catalogue.json_fields("SpeculativeConfig", version)


def verifies_adaptively(plan: Plan) -> bool:
    """Whether the engine chooses by itself how many drafts of a block it verifies."""
    return dict(plan.extra).get(ADAPTIVE, "false") != "false"


def speculative_config(extra: Extras) -> tuple[dict[str, Any], Extras]:
    """(the merged speculative JSON, all other entries). Broken JSON stays among the others."""
    parts: tuple[Extras, Extras] = ([], [])
    for name, value in extra:
        whole = name == CONFIG and spec.is_object(value)
        parts[whole or name in SHORTHAND or name.startswith(CONFIG + ".")].append((name, value))
    return merge_json(parts[1], CONFIG), parts[0]


def merge_json(rows: Extras, option: str) -> dict[str, Any]:
    """One dict of the JSON value, dotted keys (which override it) and vLLM's shorthand options."""
    merged: dict[str, Any] = {}
    for name, value in rows:
        if name == option and spec.is_object(value):
            merged.update(spec.load(value or "{}"))
    for name, value in rows:
        if name in SHORTHAND:
            merged[SHORTHAND[name]] = spec.scalar(value)
        elif name.startswith(option + "."):
            _put(merged, name[len(option) + 1 :].split("."), spec.scalar(value))
    return merged


def _put(target: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = target.get(key)
        if not isinstance(inner, dict):
            inner = target[key] = {}
        target = inner
    target[path[-1]] = value
