import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import is_only_near
from advisor.engines import Option
from advisor.knowledge.rule_data import table
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flags
from advisor.rules.kit.fixes import rename_fix, replace_fix, set_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, lookup_spelling
from advisor.rules.kit.numbers import (
    beyond,
    expected_number,
    leading_digits,
    likely_number,
    limits,
    outside,
)
from advisor.rules.kit.values import (
    OPEN,
    AllowedValues,
    allowed_values,
    matches_choice,
    nearest,
    slip,
)

_COMMAS = lazy_re(r"\s*\d+(?:\s*,\s*\d+)+\s*")
_NO_PORT = lazy_re(r"\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][\w-]*(?:\.[\w-]+)*")
_SPLIT_OTHERWISE = lazy_re(r"\d+(?:\.\d+)?(?:\s*[:;]\s*\d+(?:\.\d+)?)+")
_WITH_PORT = lazy_re(r"(?:https?://)?([A-Za-z0-9.-]+):\d{2,5}/?|https?://([A-Za-z0-9.-]+)/?")
# read with std::stoi, which throws at a word; others take words too, such as --gpu-layers all
COUNTS = (
    *("--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--predict"),
    *("--threads", "--port", "--spec-draft-n-max", "--spec-draft-n-min"),
)
SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")
# numbers with a fraction, read with std::stof
SAMPLING = (
    "--temp",
    "--top-p",
    "--min-p",
    "--repeat-penalty",
    "--presence-penalty",
    "--frequency-penalty",
)
# the default of an option that takes a number, as llama.cpp's help gives it: "0.10, 0.0 = disabled"
_NUMBER = lazy_re(r"-?\d+(?:\.\d+)?(?=[,;]|$)")
SECONDS = ("--timeout", "--sleep-idle-seconds")
TEMPLATES = tuple(table("compatibility")["chat_templates"]["value"].split())
_WORD = lazy_re(r"[\w./~-]+")
TENSORS = ("--override-tensor", "--spec-draft-override-tensor")
_TENSOR = lazy_re(r":(?=(?:CPU|CUDA|ROCm|Vulkan|SYCL|Metal)\w*$)(?<!=)")
LAYERS = ("auto", "all")
TRUE_WORDS = frozenset(("on", "off", "true"))
LISTS = ("--spec-type",)  # comma lists, judged by SD113 and SD114


@rule(severity="error", engines=(*CATALOGUED, "ik_llama.cpp"), versioned=True)
def value_not_accepted(case: Case) -> Iterator[Hit]:
    """A value that the option does not take at this release.

    Why: the server refuses to start; the list of values changes between releases.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype nvfp4
    Good (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Sources: the engines' own parsers and configuration classes, catalogued by release
    """
    version, known = catalogued_version(case), catalogue(case)
    for found in flags(case):
        if found.value is None or found.unresolved or not found.known or found.name in LISTS:
            continue
        option = known.find(lookup_spelling(found), version)
        if option is None or not option.takes_value or "." in found.name:
            continue
        for judge in (with_port, form_of_text, no_number, off_the_list):
            if (hit := judge(case, found, option)) is not None:
                yield hit
                break


def with_port(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where an address to listen on has a port."""
    told = _WITH_PORT.fullmatch(found.value or "") if found.name == "--host" else None
    if told is None:
        return None
    bare = told[1] or told[2]
    said = "an address without a port" if told[1] else "an address without http://"
    return Hit(
        f"{found.raw} takes {said}, not '{told[0]}'",
        flag=found,
        fix=set_fix(
            case,
            found,
            bare,
            f"Write {bare}, and the port with --port." if told[1] else f"Write {bare}.",
        ),
        slip=True,
    )


def form_of_text(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where a text lacks the form that the option reads."""
    value = (found.value or "").strip()
    if found.name == "--dist-init-addr" and _NO_PORT.fullmatch(value):
        return Hit(
            f"{found.raw} takes an address with a port, not '{value}'",
            flag=found,
            fix=f"Write {value}:PORT, the same on each node.",
            slip=True,
        )
    if found.name == "--tensor-split" and _SPLIT_OTHERWISE.fullmatch(value):
        meant = re.sub(r"\s*[:;]\s*|\s+", ",", value)
        return Hit(
            f"{found.raw} takes numbers with commas between them: '{value}' is read up to the "
            "first sign, and all layers go to one device",
            flag=found,
            severity="warning",
            fix=set_fix(case, found, meant, f"Write {meant}."),
            slip=True,
        )
    if found.name == "--chat-template" and case.plan.engine in GGUF_ENGINES:
        return template(case, found, value)
    return adapters(case, found, option)


def template(case: Case, found: Flag, value: str) -> Hit | None:
    """Return a hit where a word is no template of llama.cpp's own: it becomes the whole prompt."""
    if not _WORD.fullmatch(value) or value in TEMPLATES:
        return None
    is_file = "/" in value or value.endswith((".jinja", ".jinja2", ".txt"))
    near = None if is_file else nearest(value, TEMPLATES)
    if is_file:
        what = f"Write --chat-template-file {value}."
        fix = rename_fix(case, found, "--chat-template-file", what)
        said = "a file is given with --chat-template-file"
    else:
        what = f"Write {near}." if near else "Leave it out: the model brings its own template."
        fix = set_fix(case, found, near, what) if near else Fix(text=what)
        said = f"did you mean {near}?" if near else "llama.cpp has none of that name"
    return Hit(
        f"{found.raw} takes the text of a template or the name of one that is built in, not "
        f"'{value}'; {said}",
        flag=found,
        severity="error" if slip(value, near) else "warning",
        fix=fix,
        slip=True,
    )


def adapters(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where an adapter is no NAME=PATH; vLLM takes JSON objects too."""
    if found.name != "--lora-modules" or case.plan.engine != "vllm" or found.origin != "cli":
        return None
    words = (found.value or "").split()
    if "{" in (found.value or "") or all("=" in word for word in words) or not words:
        return None
    meant = [re.sub(r"^([\w.-]+):(?=[/.~\w])", r"\1=", word) for word in words]
    what = "Write each as NAME=PATH."
    fix = Fix(text=what)
    if all("=" in word for word in meant):
        fix = replace_fix(case, found, f"{found.raw} {' '.join(meant)}", what)
    wrong = next(word for word in words if "=" not in word)
    return Hit(f"{found.raw} takes NAME=PATH, not '{wrong}'", flag=found, fix=fix, slip=True)


def no_number(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where the option needs a number and the value is none."""
    value = found.value or ""
    if found.name not in TENSORS and to_fill(value, named=True):
        return None
    if case.plan.engine in GGUF_ENGINES:  # its types are read off its help
        return number_cut_short(case, found, option)
    if option.many and option.type == "int" and _COMMAS.fullmatch(value):
        return with_commas(case, found)
    kind = expected_number(option, value)
    if kind is None and found.origin == "python" and re.fullmatch(r"[\d.]+[kKmMgG]", value):
        kind = option.type if option.type.startswith("human_readable_int") else None
    if kind is None:
        return out_of_range(case, found)
    wanted = "a number" if kind == "float" else "a whole number"
    near = likely_number("int" if found.origin == "python" and kind != "float" else kind, value)
    return Hit(
        f"{found.raw} takes {wanted}, not '{value}'",
        flag=found,
        fix=set_fix(case, found, near, f"Write {near} if that is meant.")
        if near is not None
        else f"Give {found.raw} {wanted}.",
        slip=True,
    )


def with_commas(case: Case, found: Flag) -> Hit:
    """The hit of a list of numbers that is one word: each is an argument of its own."""
    written = re.sub(r"\s*,\s*", " ", (found.value or "").strip())
    what = f"Write {written}."
    fix = Fix(text=what)
    if found.origin == "cli":  # a list does not go on behind a sign: --option=1 2
        fix = replace_fix(case, found, f"{found.raw} {written}", what)
    return Hit(
        f"{found.raw} takes whole numbers with spaces between them, not '{found.value}'",
        flag=found,
        fix=fix,
        slip=True,
    )


def out_of_range(case: Case, found: Flag) -> Hit | None:
    """Return a hit where a number lies outside what the option's class allows."""
    if found.name in SHARES:  # SD314
        return None
    engine = "llama-server" if case.plan.engine in GGUF_ENGINES else case.plan.engine
    value = (found.value or "").strip()
    said = outside(limits(engine, found.name, catalogued_version(case)), value) or beyond(
        engine, found.name, value
    )
    if said is None:
        return None
    number = value.lstrip("-")
    meant = None
    if value.startswith("-") and outside(limits(engine, found.name, None), number) is None:
        meant = number
    elif said == "at most 1" and re.fullmatch(r"\d{1,2}", number):
        meant = f"{float(number) / 100:g}"
    what = f"Write {meant} if that is meant." if meant else f"Give {found.raw} {said}."
    gguf = case.plan.engine in GGUF_ENGINES and found.name in SAMPLING
    return Hit(
        f"{found.raw} takes a number of {said}, not {value}",
        flag=found,
        severity="warning" if gguf else None,  # clipped, or the sampler is off
        fix=set_fix(case, found, meant, what) if meant else what,
        slip=True,
    )


def number_cut_short(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where llama.cpp reads a part of the value: std::stoi takes 64k for 64."""
    value = found.value or ""
    if found.name in TENSORS and not found.unresolved and (bad := _TENSOR.search(value)):
        right = value[: bad.start()] + "=" + value[bad.end() :]
        return Hit(
            f"{found.raw} takes PATTERN=BUFFER, not '{value}'",
            flag=found,
            fix=set_fix(case, found, right, f"Write {right}."),
            slip=True,
        )
    words = LAYERS if found.name in ("--gpu-layers", "--spec-draft-ngl") else ()
    wordy = re.fullmatch(r"[A-Za-z:;=][\w:-]*", value) is not None  # std::stoi throws
    whole = found.name in COUNTS or (option.type == "int" and not words)
    whole = whole or (option.type == "str" and _NUMBER.match(str(option.default)) is not None)
    if (whole and wordy) or (words and wordy and value not in words):
        near = nearest(value, words) if words else likely_number("int", value)
        kind = "a whole number" if option.type == "int" or found.name in COUNTS else "a number"
        what = f"Write {near}." if near else f"Give {found.raw} {kind}."
        return Hit(
            f"{found.raw} takes {kind}{' or ' + ' or '.join(words) if words else ''}, "
            f"not '{value}'",
            flag=found,
            fix=set_fix(case, found, near, what) if near else what,
            slip=True,
        )
    if option.type != "int" or re.fullmatch(r"[+-]?\d+", value):
        return out_of_range(case, found)
    if found.name in SAMPLING:
        near = likely_number("float", value)
        if near is None or near == value:
            return out_of_range(case, found)
        kept: str | None = re.split(r"[^\d.]", value)[0] or "0"
    else:
        kept, near = leading_digits(value), likely_number("int", value)
        size = re.fullmatch(r"(\d{1,18})\s*[gG]i?[bB]?", value)
        if found.name == "--cache-ram" and size is not None:
            near = str(int(size[1]) * 1024)  # it counts MiB
        elif found.name in SECONDS and (span := re.fullmatch(r"(\d{1,18})\s*(m|min|h)", value)):
            near = str(int(span[1]) * (3600 if span[2] == "h" else 60))
    if kept is None or near is None or near == kept or not (whole or found.name in SAMPLING):
        return None
    return Hit(
        f"llama-server reads '{value}' as {kept}; {near} is meant",
        flag=found,
        fix=set_fix(case, found, near, f"Write {near}."),
        slip=True,
    )


def off_the_list(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where the option has a list of values and this is not one of them."""
    allowed = allowed_values(case, found, option)
    if allowed is None:
        return None
    words = (found.value or "").split() if option.many else [found.value or ""]
    wrong = next(
        (word for word in words if not matches_choice(word, allowed.here, option.name)), None
    )
    exact = option.choices or (option.values if option.name.endswith("-parser") else None)
    if wrong is None and exact and not (TRUE_WORDS & set(exact)):
        wrong = next((word for word in words if word not in exact), None)  # FP8 for fp8
    if wrong is None:
        return None
    near = nearest(wrong, allowed.here)
    choices = ", ".join(allowed.here[:12]) + (", ..." if len(allowed.here) > 12 else "")
    never = wrong.lower() not in allowed.ever
    capitals = any(one.isupper() for one in allowed.here)  # as vLLM's attention backends are
    if near is None and to_fill(wrong, named=never and not capitals):
        return None
    misspelt = never and slip(wrong, near)
    if case.plan.engine not in CATALOGUED and not misspelt:
        return None  # a fork without a catalogue of its own
    return Hit(
        f"{found.raw} does not take '{wrong}'"
        + (f"; did you mean {near}?" if near else f"; it takes {choices}"),
        flag=found,
        fix=set_fix(case, found, near, f"Use {near}; it takes {choices}.")
        if near and not option.many
        else f"Use one of {choices}.",
        severity=None if misspelt else "info" if case.launch.fork else weight(allowed, option.name),
        versions=f"the newest catalogued release ({catalogue(case).newest})",
        everywhere=never,
        slip=misspelt,
        sole=misspelt and is_only_near(wrong, near, allowed.here),
    )


def weight(allowed: AllowedValues, name: str) -> Severity | None:
    """A list that plug-ins may add to is no proof of a mistake; a class of the user's own has a
    dotted name, which was let through before.
    """
    return "warning" if allowed.open and name not in OPEN else None
