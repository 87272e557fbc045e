"""Method, tokens and model of vLLM's --speculative-config."""

from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import is_only_near
from advisor.engines.catalogue import Catalogue
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import integer
from advisor.rules.kit.fixes import is_release_pinned, json_add_fix, json_fix, set_fix, span_fix
from advisor.rules.kit.flags import catalogue, catalogued_version, spec_choices, spec_keys
from advisor.rules.kit.releases import between, release
from advisor.rules.kit.values import nearest, slip

OWN_DEFAULT = ("ngram", "suffix")  # suffix decoding and n-gram have their own length
# drafters of their own, whose configuration holds no n_predict
_VARIABLE = lazy_re(r"\$(?:\w+|\{\w+\})")
NEED_K = ("eagle", "eagle3", "draft_model", "dflash")
# up to 0.11.0 a model with its own head, DeepSeek-V3 or Qwen3-Next, stood in for a missing name
OWN_BY_MODEL = "0.11.1"
NEED = ("eagle", "eagle3", "draft_model", "dflash", "medusa", "mlp_speculator")
K = "num_speculative_tokens"
MEANT = {
    **dict.fromkeys(("nextn", "next_n", "draft-mtp", "multi_token_prediction"), "mtp"),
    **{"eagle-3": "eagle3"},
}


@rule("SD112", "info", "vllm")
def method_alias(case: Case) -> Hits:
    """An old name of the method `mtp`.

    Why: every *_mtp name is rewritten to `mtp`; a later release may refuse it.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"qwen3_next_mtp","num_speculative_tokens":2}'
    Good: with "method":"mtp" for "method":"qwen3_next_mtp"
    Sources: vllm 0.33.0 vllm/config/speculative.py; vllm-project/vllm-ascend#8623
    """
    place, method = method_flag(case)
    choices = spec_choices(case, "method")
    if method is not None and method.endswith("_mtp") and method in choices:
        what, launch = 'Write "method":"mtp".', case.launch
        # every release that takes the old name rewrites it to the new one itself
        safe = "mtp" in choices and not launch.emitted and launch.fork is None
        yield Hit(
            f"'{method}' is an old name of 'mtp': accepted, with a deprecation warning"
            if not launch.too_old
            else f"'{method}' is called 'mtp' in later releases",
            flag=place,
            fix=set_fix(case, place, "mtp", what, safe=safe)
            if place is not None and place.name == "--spec-method"
            else json_fix(case, place, "method", '"mtp"', what, safe=safe),
        )


@rule("SD115", "error", "vllm")
def spec_tokens_not_positive(case: Case) -> Hits:
    """A number of speculative tokens that is not a whole number above zero.

    Why: the configuration class refuses 0, negative numbers and text.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":0}'
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run
    """
    place, (config, data) = case.flag("--spec-tokens"), spec_keys(case)
    given: object = None
    if place is not None and not place.unresolved:
        number = integer(place.value)
        given = place.value if number is None else number
    elif config is not None:
        given, place = data.get(K), config
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return
    text = given if isinstance(given, str) else ""
    if (text.isdecimal() and text.strip("0")) or (text and to_fill(text, named=True)):
        return  # a number in quotes, or what only a variable knows
    yield Hit(
        f"the number of speculative tokens must be a whole number above 0, not {given!r}",
        flag=place,
        fix="Give 1 to 3, or leave speculation out.",
    )


@rule("SD123", "info", "vllm", decides=True)
@when(options="--speculative-config")
def spec_config_without_k(case: Case) -> Hits:
    """--speculative-config without num_speculative_tokens.

    Why: k then comes from the checkpoint, or the server refuses to start: nobody sees which k runs.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config '{"method":"mtp"}'
    Good: with "method":"mtp","num_speculative_tokens":2 for "method":"mtp"
    Sources: vllm 0.33.0 vllm/config/speculative.py (_verify_args); vllm-project/vllm#44566
    """
    place, data = spec_keys(case)
    if not data or K in data:
        return
    method = data.get("method")
    keys = catalogue(case).json_fields("SpeculativeConfig", catalogued_version(case))
    if method in OWN_DEFAULT or any(key not in keys and nearest(key, keys) == K for key in data):
        return  # of a misspelt key SD110 speaks
    needed = method in NEED_K and bool(data.get("model"))
    message = "no num_speculative_tokens: k is left to the checkpoint's number of MTP layers"
    what = 'Add "num_speculative_tokens":2 (1 to 3 for one MTP layer).'
    if needed:
        message = "no num_speculative_tokens: the server refuses a drafter without it"
        what = 'Add "num_speculative_tokens":3.'
    yield Hit(
        message,
        flag=place,
        severity="error" if needed else None,
        fix=json_add_fix(case, place, K, "3" if needed else "2", what),
    )


@rule("SD128", "error", "vllm")
@when(options="--speculative-config")
def spec_config_without_model(case: Case) -> Hits:
    """--speculative-config that names no drafter: neither a model nor a method that needs none.

    Why: an absent method is taken for draft_model, which needs a model: the server stops.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config '{"num_speculative_tokens":2}'
    Good: with "method":"mtp","num_speculative_tokens":2 for "num_speculative_tokens":2
    Sources: vllm-project/vllm@002e77c1 vllm/config/speculative.py
    """
    place, data = spec_keys(case)
    method, model = data.get("method"), data.get("model")
    if isinstance(model, str) and _VARIABLE.fullmatch(model) and place and not place.unresolved:
        text = f"the drafter is named {model} as it stands: single quotes keep the shell from it"
        yield Hit(text, flag=place, fix=f'End the single quotes around it: "\'"{model}"\'".')
    if model or (method is None and K not in data):
        return
    if (method is not None and method not in NEED) or case.flag("--spec-model", "--spec-method"):
        return
    if between(release(case), OWN_BY_MODEL, None) is False:
        return
    text = f"the method '{method}' drafts with a checkpoint of its own, and none is named"
    fix = Fix(
        text='Add "model" with the drafter\'s name, or use "method":"mtp" where the model has a '
        "head of its own."
    )
    if method is None:
        text = "the speculative configuration names neither a method nor a model"
        what = 'Add "method":"mtp" where the model has its own MTP head.'
        fix = json_add_fix(case, place, "method", '"mtp"', what)
    yield Hit(text, flag=place, fix=fix)


@rule("SD111", "error", "vllm", versioned=True)
def spec_method_unknown(case: Case) -> Hits:
    """A speculative method that vLLM does not know, such as SGLang's NEXTN.

    Why: the configuration class refuses it and the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"NEXTN","num_speculative_tokens":2}'
    Good (version=0.25.1): with "method":"mtp" for "method":"NEXTN"
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run
    """
    choices = _choices(catalogue(case), catalogued_version(case) or catalogue(case).newest)
    place, method = method_flag(case)
    if method is None or not choices or method in choices or "." in method:
        return
    if (gone := first_without(case, method)) is not None:
        yield Hit(
            f"vLLM {gone} dropped the speculative method '{method}'",
            flag=place,
            fix="Use a draft that vLLM still loads (eagle3, draft_model, mtp), or keep to "
            "an older release.",
            versions=f"{gone} and later",
        )
        return
    near = MEANT.get(method.lower()) or nearest(method, choices)
    meant = slip(method, near) or method.lower() in MEANT
    if to_fill(method, named=not meant):
        return
    later = [one for one in catalogue(case).versions if method in _choices(catalogue(case), one)]
    said = f"vLLM has no speculative method '{method}'" + (
        f" before {later[0]}" if later else f"; use '{near}'" if near else ""
    )
    fix = Fix(text=f"Use '{near}'." if near else f"Use one of {', '.join(choices[:8])}, ...")
    sure = near == MEANT.get(method.lower()) and is_release_pinned(case)
    if place is not None and near and place.name == "--spec-method":
        fix = span_fix(case, place.value_span, near, f"Use '{near}'.", safe=sure)
    elif near:
        fix = json_fix(case, place, "method", f'"{near}"', f"Use '{near}'.", safe=sure)
    yield Hit(
        said,
        flag=place,
        fix=fix,
        versions="all catalogued releases",
        everywhere=not later,
        slip=not later and meant,
        sole=is_only_near(method, near, choices),
    )


def first_without(case: Case, method: str) -> str | None:
    """The first release that dropped a method; None where none had it."""
    known = catalogue(case)
    takes = [method in _choices(known, version) for version in known.versions]
    if True not in takes or takes[-1]:
        return None
    return str(known.versions[len(takes) - takes[::-1].index(True)])


def _choices(known: Catalogue, version: str) -> tuple[str, ...]:
    """The methods of the configuration class and of the shorthand."""
    row = known.json_field("SpeculativeConfig", "method", version) or {}
    short = known.option("--spec-method", version)
    return (*(row.get("choices") or ()), *((short.choices or ()) if short is not None else ()))


def method_flag(case: Case) -> tuple[Flag | None, str | None]:
    """The flag that names the method and the name, where both can be read."""
    short = case.flag("--spec-method")
    if short is not None:
        return short, None if short.unresolved else short.value
    place, data = spec_keys(case)
    method = data.get("method")
    return place, method if isinstance(method, str) else None


def is_suffix_decoding(case: Case) -> bool:
    """Whether n-gram stands for suffix decoding, which is another thing."""
    return (method_flag(case)[1] or "").lower() == "suffix"
