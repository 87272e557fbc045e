import re

from advisor import engines
from advisor.domain.nouns import Case, Fix, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import is_only_near
from advisor.engines import Option
from advisor.knowledge.rule_data import table
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.case import is_gguf
from advisor.rules.kit.fixes import set_fix, span_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, lookup_spelling
from advisor.rules.kit.numbers import beyond, likely_number, limits, outside, takes
from advisor.rules.kit.values import OPEN, allowed_values, matches_choice, nearest, slip

_COMMAS = lazy_re(r"\s*\d+(?:\s*,\s*\d+)+\s*")
_NO_PORT = lazy_re(r"\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][\w-]*(?:\.[\w-]+)*")
_SPLIT_OTHERWISE = lazy_re(r"\d+(?:\.\d+)?(?:\s*[:;]\s*\d+(?:\.\d+)?)+")
_WITH_PORT = lazy_re(r"(?:https?://)?([A-Za-z0-9.-]+):\d{2,5}/?|https?://([A-Za-z0-9.-]+)/?")
_WORD = lazy_re(r"[\w./~-]+")
# the default of an option that takes a number, as llama.cpp's help gives it: "0.10, 0.0 = disabled"
_NUMBER = lazy_re(r"-?\d+(?:\.\d+)?(?=[,;]|$)")
# read with std::stoi, which throws at a word; others take words too, such as --gpu-layers all
COUNTS = (
    *("--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--predict"),
    *("--threads", "--port", "--spec-draft-n-max", "--spec-draft-n-min"),
)
DEVICES = ("--device", "--spec-draft-device")
DEVICE_NAMES = {"cuda": "CUDA", "rocm": "ROCm", "hip": "ROCm", "vulkan": "Vulkan", "sycl": "SYCL"}
_TORCH = lazy_re(r"(?i)\b(cuda|rocm|hip|vulkan|sycl):(\d+)\b")
SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")  # SD314
# numbers with a fraction, read with std::stof
SAMPLING = (
    *("--temp", "--top-p", "--min-p", "--spec-draft-p-min", "--repeat-penalty"),
    *("--presence-penalty", "--frequency-penalty"),
)
SECONDS = ("--timeout", "--sleep-idle-seconds")
TEMPLATES = tuple(table("compatibility")["chat_templates"]["value"].split())
TRUE_WORDS = frozenset(("on", "off", "true"))
LISTS = ("--spec-type",)  # comma lists, judged by SD113 and SD114


@rule("SD107", "error", "catalogued ik_llama.cpp", versioned=True)
def value_not_accepted(case: Case) -> Hits:
    """A value that the option does not take at this release.

    Why: the server refuses to start; the list of values changes between releases.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype nvfp4
    Good (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Sources: the engines' own parsers and configuration classes, catalogued by release
    """
    version, known = catalogued_version(case), catalogue(case)
    for flag in case.launch.flags:
        if flag.value is None or flag.unresolved or not flag.known or flag.name in LISTS:
            continue
        option = known.find(lookup_spelling(flag), version)
        if option is None or not option.takes_value or "." in flag.name:
            continue
        for judge in (wrong_form, wrong_number, off_the_list):
            if (hit := judge(case, flag, option)) is not None:
                yield hit
                break


def wrong(flag: Flag, takes: str, fix: Fix | str, *, value: str = "") -> Hit:
    """The hit of a value that no release takes."""
    text = f"{flag.raw} takes {takes}, not '{value or flag.value}'"
    return Hit(text, flag=flag, fix=fix, slip=True)


def wrong_form(case: Case, flag: Flag, option: Option) -> Hit | None:
    """Return a hit where a text lacks the form that the option reads."""
    value, gguf = (flag.value or "").strip(), is_gguf(case)
    if flag.name == "--host" and (address := _WITH_PORT.fullmatch(flag.value or "")):
        bare = address[1] or address[2]
        what = f"Write {bare}, and the port with --port." if address[1] else f"Write {bare}."
        kind = "without a port" if address[1] else "without http://"
        return wrong(flag, f"an address {kind}", set_fix(case, flag, bare, what))
    if flag.name == "--dist-init-addr" and _NO_PORT.fullmatch(value):
        what = f"Write {value}:PORT, the same on each node."
        return wrong(flag, "an address with a port", what, value=value)
    if flag.name == "--tensor-split" and _SPLIT_OTHERWISE.fullmatch(value):
        meant = re.sub(r"\s*[:;]\s*|\s+", ",", value)
        return Hit(
            f"{flag.raw} takes numbers with commas between them: '{value}' is read up to the "
            "first sign, and all layers go to one device",
            flag=flag,
            severity="warning",
            fix=set_fix(case, flag, meant, f"Write {meant}."),
            slip=True,
        )
    if flag.name in DEVICES and gguf and _TORCH.search(value):
        meant = _TORCH.sub(lambda one: DEVICE_NAMES[one[1].lower()] + one[2], value)
        return wrong(flag, "names such as CUDA0", set_fix(case, flag, meant, f"Write {meant}."))
    if flag.name == "--override-tensor" and any("=" not in one for one in value.split(",")):
        what = "Write =CPU behind it, or another buffer."
        return wrong(flag, "PATTERN=BUFFER", set_fix(case, flag, f"{value}=CPU", what))
    if flag.name == "--chat-template" and gguf:
        return template(flag, value)
    if flag.name == "--lora-modules" and case.plan.engine == "vllm" and flag.origin == "cli":
        return adapters(case, flag)
    return None


def template(flag: Flag, value: str) -> Hit | None:
    """Return a hit where a word is no template of llama.cpp's own: it becomes the whole prompt."""
    if not _WORD.fullmatch(value) or value in TEMPLATES:
        return None
    return Hit(
        f"{flag.raw} takes the text of a template or the name of one that is built in, not "
        f"'{value}'; llama.cpp has none of that name",
        flag=flag,
        severity="warning",
        fix="Leave it out: the model brings its own; a file is given with --chat-template-file.",
        slip=True,
    )


def adapters(case: Case, flag: Flag) -> Hit | None:
    """Return a hit where an adapter is no NAME=PATH; vLLM takes JSON objects too."""
    words = (flag.value or "").split()
    bad = [word for word in words if "=" not in word]
    if "{" in (flag.value or "") or not bad:
        return None
    meant = [re.sub(r"^([\w.-]+):(?=[/.~\w])", r"\1=", word) for word in words]
    what = "Write each as NAME=PATH."
    fix = Fix(text=what)
    if all("=" in word for word in meant):
        fix = span_fix(case, flag.span, f"{flag.raw} {' '.join(meant)}", what)
    return wrong(flag, "NAME=PATH", fix, value=bad[0])


def wrong_number(case: Case, flag: Flag, option: Option) -> Hit | None:
    """Return a hit where the option needs a number and the value is none."""
    value = flag.value or ""
    if to_fill(value, named=True):
        return None
    if is_gguf(case):  # its types are read off its help
        return number_cut_short(case, flag, option)
    if option.many and option.type == "int" and _COMMAS.fullmatch(value):
        return with_commas(case, flag)
    plain = option.takes_value is True and not (option.many or option.choices)
    kind = option.type if plain and not takes(option.type, value) else None
    if kind is None and flag.origin == "python" and re.fullmatch(r"[\d.]+[kKmMgG]", value):
        kind = option.type if option.type.startswith("human_readable_int") else None
    if kind is None:
        return out_of_range(case, flag)
    words = "a number" if kind == "float" else "a whole number"
    near = likely_number("int" if flag.origin == "python" and kind != "float" else kind, value)
    if near is None:
        return wrong(flag, words, f"Give {flag.raw} {words}.")
    return wrong(flag, words, set_fix(case, flag, near, f"Write {near} if that is meant."))


def with_commas(case: Case, flag: Flag) -> Hit:
    """The hit of a list of numbers that is one word: each is an argument of its own."""
    written = re.sub(r"\s*,\s*", " ", (flag.value or "").strip())
    what = f"Write {written}."
    fix = Fix(text=what)
    if flag.origin == "cli":  # a list does not go on behind a sign: --option=1 2
        fix = span_fix(case, flag.span, f"{flag.raw} {written}", what)
    return wrong(flag, "whole numbers with spaces between them", fix)


def out_of_range(case: Case, flag: Flag) -> Hit | None:
    """Return a hit where a number lies outside what the option's class allows."""
    if flag.name in SHARES:
        return None
    gguf = is_gguf(case)
    engine, value = "llama-server" if gguf else case.plan.engine, (flag.value or "").strip()
    least = outside(limits(engine, flag.name, catalogued_version(case)), value)
    bound = least or beyond(engine, flag.name, value)
    if bound is None:
        return None
    number, meant = value.lstrip("-"), None
    if value.startswith("-") and outside(limits(engine, flag.name, None), number) is None:
        meant = number
    elif bound == "at most 1" and re.fullmatch(r"\d{1,2}", number):
        meant = f"{float(number) / 100:g}"
    what = f"Write {meant} if that is meant." if meant else f"Give {flag.raw} {bound}."
    return Hit(
        f"{flag.raw} takes a number of {bound}, not {value}",
        flag=flag,
        severity="warning" if gguf and flag.name in SAMPLING else None,  # clipped, or switched off
        fix=set_fix(case, flag, meant, what) if meant else what,
        slip=True,
    )


def number_cut_short(case: Case, flag: Flag, option: Option) -> Hit | None:
    """Return a hit where llama.cpp reads a part of the value: std::stoi takes 64k for 64."""
    value = flag.value or ""
    words = ("auto", "all") if flag.name in ("--gpu-layers", "--spec-draft-ngl") else ()
    wordy = re.fullmatch(r"[A-Za-z:;=][\w:-]*", value) is not None  # std::stoi throws
    whole = flag.name in COUNTS or (option.type == "int" and not words)
    whole = whole or (option.type == "str" and _NUMBER.match(str(option.default)) is not None)
    if wordy and (whole or (words and value not in words)):
        near = nearest(value, words) if words else likely_number("int", value)
        kind = "a whole number" if option.type == "int" or flag.name in COUNTS else "a number"
        what = f"Write {near}." if near else f"Give {flag.raw} {kind}."
        takes = " or ".join((kind, *words))
        return wrong(flag, takes, set_fix(case, flag, near, what) if near else what)
    if option.type != "int" or re.fullmatch(r"[+-]?\d+", value):
        return out_of_range(case, flag)
    if flag.name in SAMPLING:
        near = likely_number("float", value)
        if near is None or near == value:
            return out_of_range(case, flag)
        read: str | None = re.split(r"[^\d.]", value)[0] or "0"
    else:
        # what a C++ parser keeps of a number with letters behind it: `64k` is 64
        cut, near = re.match(r"([+-]?\d+)\D", value.strip()), likely_number("int", value)
        read = cut[1] if cut is not None else None
        size = re.fullmatch(r"(\d{1,18})\s*[gG]i?[bB]?", value)
        if flag.name == "--cache-ram" and size is not None:
            near = str(int(size[1]) * 1024)  # it counts MiB
        elif flag.name in SECONDS and (span := re.fullmatch(r"(\d{1,18})\s*(m|min|h)", value)):
            near = str(int(span[1]) * (3600 if span[2] == "h" else 60))
    if read is None or near is None or near == read or not (whole or flag.name in SAMPLING):
        return None
    return Hit(
        f"llama-server reads '{value}' as {read}; {near} is meant",
        flag=flag,
        fix=set_fix(case, flag, near, f"Write {near}."),
        slip=True,
    )


def of_llama(option: Option, word: str) -> bool:
    """Whether a type of the KV cache is llama.cpp's, which no plug-in of vLLM adds."""
    own = engines.get("llama-server").catalogue.find("--cache-type-k", None)
    return option.name == "--kv-cache-dtype" and own is not None and word in (own.choices or ())


def off_the_list(case: Case, flag: Flag, option: Option) -> Hit | None:
    """Return a hit where the option has a list of values and this is not one of them."""
    allowed = allowed_values(case, flag, option)
    if allowed is None:
        return None
    words = (flag.value or "").split() if option.many else [flag.value or ""]
    bad = [word for word in words if not matches_choice(word, allowed.here, option.name)]
    exact = option.choices or (option.values if option.name.endswith("-parser") else None)
    if not bad and exact and not (TRUE_WORDS & set(exact)):
        bad = [word for word in words if word not in exact]  # FP8 for fp8
    if not bad:
        return None
    word, near = bad[0], nearest(bad[0], allowed.here)
    choices = ", ".join(allowed.here[:12]) + (", ..." if len(allowed.here) > 12 else "")
    never = word.lower() not in allowed.ever
    capitals = any(choice.isupper() for choice in allowed.here)  # vLLM's attention backends
    misspelt = never and slip(word, near)
    if near is None and to_fill(word, named=never and not capitals):
        return None
    if case.plan.engine not in CATALOGUED and not misspelt:
        return None  # a fork without a catalogue of its own
    # a list that plug-ins may add to is no proof of a mistake; a class of one's own has a dotted
    # name, which was let through before
    unsure = allowed.open and option.name not in OPEN and not (never and of_llama(option, word))
    severity: Severity | None = "warning" if unsure else None
    return Hit(
        f"{flag.raw} does not take '{word}'"
        + (f"; did you mean {near}?" if near else f"; it takes {choices}"),
        flag=flag,
        fix=set_fix(case, flag, near, f"Use {near}; it takes {choices}.")
        if near and not option.many
        else f"Use one of {choices}.",
        severity=None if misspelt else "info" if case.launch.fork else severity,
        versions=f"the newest catalogued release ({catalogue(case).newest})",
        everywhere=never,
        slip=misspelt,
        sole=misspelt and is_only_near(word, near, allowed.here),
    )
