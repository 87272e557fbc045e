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
# the default of an option that takes a number, as llama.cpp's help gives it: "0.10, 0.0 = disabled"
_NUMBER = lazy_re(r"-?\d+(?:\.\d+)?(?=[,;]|$)")
# read with std::stoi, which throws at a word; others take words too, such as --gpu-layers all
COUNTS = (
    *("--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--predict"),
    *("--threads", "--port", "--spec-draft-n-max", "--spec-draft-n-min"),
)
# texts that an option cannot read, and what each is meant for
FORMS = {
    name: row
    for names, row in table("compatibility")["value_forms"].items()
    for name in names.split()
}
SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")  # SD314
# numbers with a fraction, read with std::stof
SAMPLING = (
    *("--temp", "--top-p", "--min-p", "--spec-draft-p-min", "--repeat-penalty"),
    *("--presence-penalty", "--frequency-penalty"),
)
SECONDS = ("--timeout", "--sleep-idle-seconds")
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
        if option is None or "." in flag.name:
            continue
        switch = option.takes_value is False
        for judge in (wrong_switch,) if switch else (wrong_form, wrong_number, off_the_list):
            if (hit := judge(case, flag, option)) is not None:
                yield hit
                break


def wrong(flag: Flag, takes: str, fix: Fix | str, *, value: str = "") -> Hit:
    """The hit of a value that no release takes."""
    text = f"{flag.raw} takes {takes}, not '{value or flag.value}'"
    return Hit(text, flag=flag, fix=fix, slip=True)


def wrong_switch(case: Case, flag: Flag, option: Option) -> Hit | None:
    """Return a hit where a variable gives a switch a word that llama.cpp does not read."""
    if flag.origin != "env" or flag.value == "false":
        return None
    text = f"{flag.raw} takes on, true and 1, or off, false and 0; '{flag.value}' is none of them"
    meant = "false" if flag.value == "no" else "true"
    # a switch that has no off form is only left off
    weight: Severity | None = None if "--no-" in " ".join(option.flags) else "warning"
    return Hit(
        text,
        flag=flag,
        severity=weight,
        fix=set_fix(case, flag, meant, f"Write {meant}."),
        slip=True,
    )


def wrong_form(case: Case, flag: Flag, option: Option) -> Hit | None:
    """Return a hit where a text lacks the form that the option reads."""
    value, row = (flag.value or "").strip(), FORMS.get(flag.name, {})
    engine = "llama-server" if is_gguf(case) else case.plan.engine
    fits = row.get("engine", engine) == engine and (flag.origin == "cli" or not option.many)
    forms = (form for form in row.get("value", ()) if fits and re.fullmatch(form["bad"], value))
    if (form := next(forms, None)) is None:
        return None
    meant = value
    for pattern, text in form.get("mend", ()):
        meant = re.sub(pattern, text, meant)
    what = form.get("fix", "Write {}.").replace("{}", meant)
    place = flag.value_span  # between the quotes of JSON may stand signs of the file's
    plain = '"' not in value or (place and place.end - place.start == len(value))
    mended = plain and meant != value and not re.fullmatch(form["bad"], meant)
    says = form.get("says", f"takes {form.get('takes')}, not '{{}}'").replace("{}", value)
    fix = set_fix(case, flag, meant, what) if mended else what
    return Hit(f"{flag.raw} {says}", flag=flag, severity=form.get("severity"), fix=fix, slip=True)


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
        counts = flag.name in COUNTS or (option.type == "int" and flag.name not in SAMPLING)
        kind = "a whole number" if counts else "a number"
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
    if not bad and exact and {"on", "off", "true"}.isdisjoint(exact):
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
    named = option.default in allowed.here and option.default != "auto"
    usual = near or (str(option.default) if named else None)
    return Hit(
        f"{flag.raw} does not take '{word}'"
        + (f"; did you mean {near}?" if near else f"; it takes {choices}"),
        flag=flag,
        fix=set_fix(case, flag, usual, f"Use {usual}; it takes {choices}.")
        if usual and not option.many
        else f"Use one of {choices}.",
        severity=None if misspelt else "info" if case.launch.fork else severity,
        versions=f"the newest catalogued release ({catalogue(case).newest})",
        everywhere=never,
        slip=misspelt,
        sole=misspelt and is_only_near(word, near, allowed.here),
    )
