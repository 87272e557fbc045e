"""The options of a question: one list for the command line, the page, the API and agents. Names
(hardware, model, quant, version) are left to the knowledge.
"""

import re
from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import click

from advisor.cli.base import Option, with_options
from advisor.domain.nouns import LIMITS, MAX_POSITIONS, METHODS, Engine, Request, Workload
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import excerpt
from advisor.knowledge import store as knowledge
from advisor.rules.registry import index

if TYPE_CHECKING:
    NumberType = click.ParamType[float]
    RatesType = click.ParamType[tuple[float, ...]]
    ChoiceType = click.Choice[str]
else:  # generic only for the type checker, and not in every release of click
    NumberType = RatesType = click.ParamType
    ChoiceType = click.Choice

WORKLOADS: tuple[str, ...] = get_args(Workload)
RANGE = lazy_re(r"(\d+[km]?) ?(?:-|\.\.|to|\u2013) ?(\d+[km]?)", re.IGNORECASE)
_UNIT = lazy_re(
    r" ?(?:tokens?|toks?|users?|requests?|reqs?|streams?|clients?|slots?|gpus?|cards?|concurrent)"
)
_COUNT = lazy_re(r"(?:[cx] ?)?(\d{1,3}(?:[, ]\d{3})+|\d+)(?: ?x)?")


def written_count(value: Any) -> Any:
    """A count as people write it, bare: "8,192", "16 users", "c16", "32K tokens" -> "32k"."""
    if not isinstance(value, str) or len(value) > 40:
        return value
    text = value.strip().lower()
    unit = _UNIT.search(text)
    if unit is not None and unit.end() == len(text):
        value = text = text[: unit.start()]
    counted = _COUNT.fullmatch(text)
    return re.sub("[, ]", "", counted[1]) if counted else value


def written_tokens(value: Any) -> Any:
    """A number of tokens as people write it: k and m count by 1,024, `8k` is 8192."""
    text = str(written_count(value)).strip().lower()
    factor = {"k": 1024, "m": 1024**2}.get(text[-1:])
    try:
        whole = float(text[:-1]) * factor if factor else None
    except ValueError:
        whole = None
    return int(whole) if whole is not None and isfinite(whole) and whole == int(whole) else value


class Number(NumberType):
    """A finite number within limits; `whole` for counts. Says the limits when it refuses."""

    name = "number"

    def __init__(self, low: float, high: float, *, whole: bool = False) -> None:
        self.low, self.high, self.whole = low, high, whole

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the placeholder that the help shows."""
        return "N" if self.whole else "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail where it is none or outside the limits. A range of requests is
        a question of its own to `recommend`: both ends.
        """
        value = written_count(value) if self.whole else value
        if self.whole and (ends := RANGE.fullmatch(str(value).strip())):
            name = param.opts[-1].lstrip("-") if param is not None else "NAME"
            vary = f"--vary {name}={ends[1]}..{ends[2]}"
            asking = ctx is not None and ctx.info_name in ("recommend", "compose", "compare")
            if asking and name == "concurrency":
                return tuple(int(self.convert(end, param, ctx)) for end in ends.groups())
            other = f"give one number, or ask `advisor sweep {vary}`"
            ask = f"here it is {vary}" if ctx is not None and ctx.info_name == "sweep" else other
            self.fail(f"'{excerpt(value, 40)}' is a range: {ask}", param, ctx)
        try:
            number = int(value) if self.whole else float(value)
        except (TypeError, ValueError, OverflowError):
            number = nan
        if not self.low <= number <= self.high:
            kind = "a whole number" if self.whole else "a number"
            limits = f"from {self.low:,} to {self.high:,}"
            self.fail(f"'{excerpt(value, 40)}' is not {kind} {limits}", param, ctx)
        return number


class Tokens(Number):
    """A whole number of tokens; k and m count by 1,024, as engines and model cards do: 32k."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__(low, high, whole=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number of tokens; `8k` is 8192."""
        return super().convert(written_tokens(value), param, ctx)


class Rates(RatesType):
    """Comma-separated acceptance rates, the first draft position first: 0.82,0.63."""

    name = "rates"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the placeholder that the help shows."""
        return "R1,R2,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the rates; fail where one is no number from 0 to 1."""
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if len(parts) > MAX_POSITIONS:
            self.fail(
                f"{len(parts)} rates are more than the {MAX_POSITIONS} draft positions that "
                f"can be used",
                param,
                ctx,
            )
        return tuple(float(Number(0, 1).convert(part.strip(), param, ctx)) for part in parts)


def complete_names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Shell completion of one kind of name, from what is loaded only when a shell asks."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in _NAMES[kind]() if name.lower().startswith(incomplete.lower())]

    return complete


_NAMES: dict[str, Callable[[], tuple[str, ...]]] = {
    "hardware": knowledge.hardware_ids,
    "model": knowledge.llm_ids,
    "quant": knowledge.quant_ids,
    "engine": lambda: get_args(Engine),
    "rule": lambda: (*(row.code for row in index()), *(row.slug for row in index())),
}


class _DraftWord(ChoiceType):
    """A method that a launch is written for; of those that only a table prices, it says so."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the method. Raises BadParameter."""
        word = str(value).strip().lower().replace("-", "_")
        if word in set(METHODS) - {"none", *self.choices}:
            self.fail(
                f"{word} is priced by `advisor predict --rows` alone (column spec_method): no "
                f"launch is written for it; here: {', '.join(self.choices)}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The value of an option that asks for one thing. Raises BadParameter where it has two."""
    if len(values) > 1:
        raise click.BadParameter("one machine a question; `advisor compare` takes two", ctx, param)
    return values[0] if values else None


class OptionRow(NamedTuple):
    """One option as the command line, the page, the API and the tools for agents have it."""

    flag: str
    name: str  # of its value: a field of Request, where it is one
    text: str
    kind: Any = None  # type of click; bool; None: text
    default: Any = None


FIELDS = get_type_hints(Request)
_TOKENS = ("ctx_tokens", "output_tokens", "max_model_len")
_NAMED = {"hw": "hardware", "model": "model", "quant": "quant", "engine": "engine"}
_METAVARS = {"kv-cache-dtype": "TYPE", "engine-version": "VERSION", "workload": "WORD",
             "users-within": "LIMITS", "price": "X/h"}  # fmt: skip


def _rows(text: str, kinds: Mapping[str, Any]) -> dict[str, OptionRow]:
    """Options by flag from lines `FLAG [NAME]: help`, with type, limits and default of the field of
    that name; `kinds` of those that are none.
    """
    rows = {}
    for line in text.replace("\n  ", " ").splitlines():
        names, _, words = line.partition(": ")
        flag, *rest = names.split()
        name = rest[0] if rest else flag.replace("-", "_")
        field = Request.model_fields.get(name)
        chosen = "[default" in words or not isinstance(field, int | float | str)
        default = None if chosen else field
        rows[flag] = OptionRow(flag, name, words, kinds.get(flag, _kind(name)), default)
    return rows


def _kind(name: str) -> Any:
    """What the values of a field are: limits, words, a switch, or text (None)."""
    hint = FIELDS.get(name)
    parts = (hint, *get_args(hint))
    if name in LIMITS:
        low, high = LIMITS[name]
        return Tokens(low, high) if name in _TOKENS else Number(low, high, whole=int in parts)
    words = next((get_args(part) for part in parts if get_origin(part) is Literal), ())
    if words:
        return (_DraftWord if name == "method" else click.Choice)(words, case_sensitive=False)
    return bool if bool in parts else None


def click_options(
    rows: Mapping[str, OptionRow], flags: str = "", *, defaults: bool = True
) -> Option:
    """These options (all, if none is named); without `defaults` what is not told is None."""
    return with_options(*(_click(rows[x], defaults) for x in flags.split() or rows))


def _click(row: OptionRow, defaults: bool) -> Option:
    text = row.text if defaults else row.text.partition("  [default")[0]
    if row.kind is bool:
        return click.option(f"--{row.flag}/--no-{row.flag}", default=None, help=text)
    more: dict[str, Any] = {}
    if defaults and row.default is not None:
        more = {"default": row.default, "show_default": not isinstance(row.default, float)}
    if row.flag in _NAMED:
        more |= {"shell_complete": complete_names(_NAMED[row.flag]), "metavar": "NAME"}
    if row.flag == "hw":
        more |= {"multiple": True, "callback": once}
    if row.flag in _METAVARS:
        more["metavar"] = _METAVARS[row.flag]
    return click.option(f"--{row.flag}", row.name, type=row.kind, help=text, **more)


QUESTION = _rows(
    f"""\
hw: Hardware, e.g. gb10, 3090, h100; auto detects this machine.
gpus: Total number of GPUs  [default: --tp, else 1]
tp: Tensor-parallel ranks per replica.
pp: Pipeline stages per replica, each of --tp ranks.
ep: Ranks that share out whole experts; 1: each holds a part of every expert.
gpus-per-machine: GPUs that one machine holds  [default: by the hardware]
interconnect: Link between the GPUs; nvlink-pairs: bridges; roce, ethernet: between machines.
model: Model.  [default: qwen3.6-35b-a3b]
quant: Quantisation  [default: the best that fits and runs]
engine: vllm, sglang or llama-server; with a version: vllm@0.25.1  [default: by hardware]
engine-version: Release, llama.cpp build (b9235) or commit  [default: newest with an image for --hw]
method: Draft method  [default: the model's own head, else a published drafter]
concurrency: Concurrent requests; recommend and compare take a range too, 1..64.
ctx ctx_tokens: Prompt tokens per request: 2048, 32k.
output-tokens: Output tokens per request.
workload: {", ".join(WORKLOADS)}.
thinking: Whether the model reasons before it answers.
temperature: Sampling temperature  [default: the model card's]
prefix-share: Share of the prompt common to all requests, 0 to 1.
output-spread: How far answer lengths vary about --output-tokens: 0 one length, 0.5 half to one and
  a half times  [default: 0 for random text, else 0.5]
acceptance: Measured acceptance rate per draft position, if the previous one was accepted:
  0.82,0.63.
acceptance-length: Measured tokens per step, bonus token included: 2.43.
acceptance-k: The k at which --acceptance-length was measured.
goal: Metric to optimise.
max-ttft-ms: Objective: maximum time to first token.
max-tpot-ms: Objective: maximum time per output token.
max-num-seqs: Maximum concurrent requests of a server  [default: what fits in memory]
max-model-len: Maximum tokens of a request: 32k  [default: what fits in memory]
gpu-memory-utilization memory_fraction: Share of GPU memory the server may use, 0.05 to 1.
kv-cache-dtype: KV cache type: fp8, q8_0, auto  [default: 16 bit]
""",
    {"acceptance": Rates()},
)
LIMITS_AND_COST = _rows(
    """\
users-within within: Objectives in one, for the largest concurrency within them: tpot=50ms,ttft=2s.
price: Price of the machine, 2.10/h: adds cost per million.
watts: Power of the machine: adds energy per million tokens.
""",
    {"watts": Number(0.001, 1e6)},
)


def _part(flags: str) -> dict[str, OptionRow]:
    return {flag: QUESTION[flag] for flag in flags.split()}


CHECKED = _part("hw gpus concurrency ctx output-tokens workload engine-version")
CHECKED["ctx"] = CHECKED["ctx"]._replace(name="ctx")
SETTING = {  # what benchmark files were measured on; what is not told is as they state it
    "hw": QUESTION["hw"]._replace(name="hardware"),
    **_part("gpus tp model quant engine engine-version method workload"),
    **_rows("k: Draft tokens per step.", {"k": Number(1, 31, whole=True)}),
}
question_options = click_options(QUESTION)
setting_options = click_options(SETTING, defaults=False)
