"""One question as the user puts it, and the limits of its numbers."""

from __future__ import annotations

from typing import Any, cast

from advisor.domain.frozen import Frozen
from advisor.domain.sourced import sourced
from advisor.domain.vocabulary import DraftMethod, Goal, Interconnect, Workload

# Least and most of each number of a question, for the command line and Python alike
LIMITS: dict[str, tuple[float, float]] = {
    "gpus": (1, 1024), "tp": (1, 1024), "pp": (1, 128), "ep": (1, 1024),
    "gpus_per_machine": (1, 1024), "concurrency": (1, 100_000), "ctx_tokens": (1, 10_000_000),
    "output_tokens": (1, 1_000_000), "temperature": (0, 5), "prefix_share": (0, 1),
    "output_spread": (0, 0.95), "acceptance_length": (1, 32), "acceptance_k": (1, 31),
    "max_ttft_ms": (0.001, 1e9), "max_tpot_ms": (0.001, 1e9), "max_num_seqs": (1, 100_000),
    "max_model_len": (1, 10_000_000), "memory_fraction": (0.05, 1.0),
}  # fmt: skip

MAX_POSITIONS = 16  # draft positions whose acceptance can be given

# Lengths where nobody tells any: a launch that is read, a class of a mix
USUAL_PROMPT = sourced(2048, "tokens", "own choice: a short document or a long chat", "assumed")
USUAL_OUTPUT = sourced(512, "tokens", "own choice: an answer of a page", "assumed")


class Request(Frozen):
    """One question: hardware, model and load. `None`: the advisor chooses, and says what."""

    machine = cast(Any, None)  # no field: the user's machine, whose own runs count; never written
    hardware: str
    gpus: int = 1
    tp: int | None = None
    pp: int | None = None  # pipeline stages of a server, each `tp` ranks; None: by the estimate
    ep: int | None = None  # ranks of a server that hold whole experts, 1: parts of every one
    gpus_per_machine: int | None = None  # None: by the hardware (advice/plans/topology.py)
    interconnect: Interconnect | None = None
    model: str = "qwen3.6-35b-a3b"
    quant: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    # None: the model's own head where it has one, else what is published for it
    method: DraftMethod | None = None
    concurrency: int = 1
    ctx_tokens: int = 2048  # prompt tokens per request
    output_tokens: int = 512
    workload: Workload = "mixed"
    thinking: bool | None = None
    temperature: float | None = None
    prefix_share: float = 0.0  # part of the prompt shared between requests, 0..1
    # half the range of answer lengths by their mean; None: 0 for random text, else 0.5
    output_spread: float | None = None
    # conditional acceptance by position, as measured by the user
    acceptance: tuple[float, ...] | None = None
    # tokens emitted per step incl. the bonus token, as measured by the user
    acceptance_length: float | None = None
    # the k at which acceptance_length was measured; None: the plan's k
    acceptance_k: int | None = None
    goal: Goal = "balanced"
    max_ttft_ms: float | None = None
    max_tpot_ms: float | None = None
    max_num_seqs: int | None = None  # request slots of a replica; None: chosen with the memory
    max_model_len: int | None = None  # tokens of the longest request
    memory_fraction: float | None = None  # of the accelerator, for the engines that take a share
    kv_cache_dtype: str | None = None  # fp8, q8_0 ...; None: 16 bit unless 8 decide

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """The fields within their limits, and together: a noun's annotations hold no metadata."""
        from typing import Annotated, get_type_hints

        from pydantic import Field
        from pydantic_core import PydanticCustomError, core_schema

        made = super().__get_pydantic_core_schema__(source, handler)
        fields, kinds = made["schema"]["fields"], get_type_hints(cls)
        for name, (low, high) in LIMITS.items():
            finite = None if kinds[name] in (int, int | None) else False
            limited = Annotated[kinds[name], Field(ge=low, le=high, allow_inf_nan=finite)]  # type: ignore[valid-type]
            fields[name]["schema"] = handler.generate_schema(limited)
        rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
        rates = Annotated[tuple[rate, ...] | None, Field(min_length=1, max_length=MAX_POSITIONS)]
        fields["acceptance"]["schema"] = handler.generate_schema(rates)

        def together(request: Request) -> Request:
            if problem := clash(
                request.acceptance, request.acceptance_length, request.acceptance_k
            ):
                raise PydanticCustomError("together", "{problem}", {"problem": problem})
            return request

        return core_schema.no_info_after_validator_function(together, made)


def clash(
    rates: tuple[float, ...] | None, length: float | None, k: int | None, prefix: str = "acceptance"
) -> str | None:
    """What does not go together in a measured acceptance; `prefix` spells its names."""
    join = "-" if prefix.startswith("-") else "_"
    if rates is not None and length is not None:
        return f"{prefix} and {prefix}{join}length say the same thing twice: give one of them"
    if length is not None and k is not None and length > k + 1:
        return (
            f"an acceptance length of {length:g} is impossible at k = {k}: at most {k + 1} "
            "tokens a step"
        )
    if k is not None and length is None:
        return (
            f"{prefix}{join}k says at which k {prefix}{join}length was measured: give that "
            "too, or leave it out"
        )
    return None
