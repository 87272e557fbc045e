"""Edits that rules propose beside replacing a flag: a new flag, a value inside JSON, an environment
variable.

Each returns a Fix with edits only where the text stands literally in the file; else the Fix says in
words what to do.
`safe` is what the rule says of the meaning; a place that a launch of another engine or release
shares is never safe.
"""

from __future__ import annotations

import re
import shlex

from advisor import engines
from advisor.domain.nouns import Case, Edit, EnvVar, Fix, Flag, Launch, Span
from advisor.rules.kit.case import flag, k_flag, rename_fix, replace_fix, spec_flag, value_fix


def is_shared(case: Case, place: Span | None, alike: bool = True) -> bool:
    """Whether another launch of the file stands on the same characters (with `alike`: one of
    another release).
    """
    launch = case.launch
    if launch is None or place is None:
        return False
    for other in case.siblings:
        same = (other.engine, other.engine_version, other.fork) == (
            launch.engine,
            launch.engine_version,
            launch.fork,
        )
        if alike and same:
            continue
        places = [one.span or one.value_span for one in other.flags]
        places += [one.span or one.value_span for one in other.env]
        if any(
            one is not None and one.start < place.end and place.start < one.end for one in places
        ):
            return True
    return False


def is_release_pinned(case: Case) -> bool:
    """Whether the release is fixed and no fork's, so that the catalogue speaks for it."""
    return case.launch.emitted or (case.launch.version_pinned and case.launch.fork is None)


def add_fix(case: Case, beside: Flag | None, name: str, value: str | None, what: str) -> Fix:
    """Add a flag before another one, in the manner of its form. Never safe: it changes what the
    server does.

    In words only where the launch has the option already, in whatever spelling and with whatever
    value: twice is worse.
    """
    if case.launch.emitted or _has_option(case.launch, name):
        return Fix(text=what)
    edit = addition(case.launch.file, beside, name, value)
    return Fix(text=what, edits=(edit,) if edit is not None else ())


def _has_option(launch: Launch, name: str) -> bool:
    """Whether the launch has an option; `name` may be the off form of a switch, which sets the same
    one.
    """
    option = engines.get(launch.engine).catalogue.find(name, None)
    return launch.flag(name) is not None or (
        option is not None and launch.flag(option.name) is not None
    )


def addition(file: str, beside: Flag | None, name: str, value: str | None) -> Edit | None:
    """The edit that puts an option before another one; None where the form of that one takes none
    without guessing.
    """
    if beside is None or beside.span is None or beside.unresolved:
        return None
    key = name.removeprefix("--")
    if beside.origin == "cli":
        text = name if value is None else f"{name} {shlex.quote(value)}"
    elif beside.origin == "ini":
        text = f"{key} = {value or 'true'}\n"
    elif beside.origin == "python":
        off = value is None and key.startswith("no-")
        number = value is not None and re.fullmatch(r"\d+(\.\d+)?", value)
        said = "False" if off else "True" if value is None else value if number else repr(value)
        text = f"{key.removeprefix('no-').replace('-', '_')}={said}, "
    else:
        return None
    return Edit(file=file, start=beside.span.start, end=beside.span.start, text=text)


Option = Flag | str | None  # a flag of the launch, or the name of one that it may have


def drop_fix(case: Case, option: Option, what: str, *, safe: bool = False) -> Fix:
    """Take a flag away."""
    found = flag(case, option) if isinstance(option, str) else option
    if found is None or found.origin not in ("cli", "ini") or found.unresolved:
        return Fix(text=what)
    return replace_fix(
        case, found, "", what, safe=safe and not is_shared(case, found.span, alike=False)
    )


def set_fix(case: Case, option: Option, value: str, what: str, *, safe: bool = False) -> Fix:
    """Give a flag another value, whatever its form."""
    found = flag(case, option) if isinstance(option, str) else option
    if found is None or found.unresolved:
        return Fix(text=what)
    place = found.span or found.value_span
    return value_fix(case, found, value, what, safe=safe and not is_shared(case, place))


def swap_fix(case: Case, one: Flag, other: Flag, what: str) -> Fix:
    """Give each of two flags the value of the other."""
    both = [
        set_fix(case, one, other.value or "", what),
        set_fix(case, other, one.value or "", what),
    ]
    edits = tuple(edit for fix in both for edit in fix.edits)
    return Fix(text=what, edits=edits if all(fix.edits for fix in both) else ())


# ---------------------------------------------------------------- inside --speculative-config


def json_fix(
    case: Case, found: Flag | None, key: str, value: str, what: str, *, safe: bool = False
) -> Fix:
    """Replace the value of a key (`value` as JSON), the key's text and everything around it
    kept.
    """
    dotted = _dotted_flag(case, found, key)
    if dotted is not None:
        return set_fix(case, dotted, value.strip('"'), what, safe=safe)
    place = _in_json(
        found,
        rf'"{re.escape(key)}"\s*:\s*("[^"\\]*"|-?\d+(?:\.\d+)?|true|false|null)(?=\s*[,}}])',
        1,
    )
    return _at(case, found, place, value, what, safe=safe)


def json_swap_fix(case: Case, found: Flag, keys: tuple[str, str]) -> Fix:
    """Give each of two keys the number of the other."""
    what = f"Exchange the two numbers of {keys[0]} and {keys[1]}."
    places = [_in_json(found, rf'"{key}"\s*:\s*(\d+)', 1) for key in keys]
    if found.value_span is None or any(place is None for place in places):
        return Fix(text=what)
    start, value = found.value_span.start, found.value or ""
    one, other = places
    if one is None or other is None:
        return Fix(text=what)
    edits = tuple(
        Edit(
            file=case.launch.file,
            start=here[0],
            end=here[1],
            text=value[there[0] - start : there[1] - start],
        )
        for here, there in ((one, other), (other, one))
    )
    return Fix(text=what, edits=edits)


def json_rename_fix(case: Case, found: Flag | None, key: str, use: str, what: str) -> Fix:
    """Write another key in the place of one."""
    dotted = _dotted_flag(case, found, key)
    if dotted is not None and dotted.span is not None:
        raw = dotted.raw[: -len(key)] + use
        edit = Edit(
            file=case.launch.file,
            start=dotted.span.start,
            end=dotted.span.start + len(dotted.raw),
            text=raw,
        )
        return Fix(text=what, edits=(edit,)) if dotted.raw.endswith(key) else Fix(text=what)
    return _at(case, found, _in_json(found, rf'"({re.escape(key)})"\s*:', 1), use, what)


def json_add_fix(case: Case, found: Flag | None, key: str, value: str, what: str) -> Fix:
    """Add a key at the end of the object."""
    place = _in_json(found, r"()\s*\}\s*$", 1)
    return _at(case, found, place, f',"{key}":{value}', what)


def json_drop_fix(case: Case, found: Flag | None, key: str, what: str) -> Fix:
    """Take a key away that is not the only one."""
    value = r'("[^"\\]*"|-?\d+(?:\.\d+)?|true|false|null)'
    place = _in_json(found, rf'(\s*,\s*"{re.escape(key)}"\s*:\s*{value})(?=\s*[,}}])', 1)
    return _at(case, found, place, "", what)


def _dotted_flag(case: Case, found: Flag | None, key: str) -> Flag | None:
    """--speculative-config.key of a launch that gives the keys one by one."""
    if found is None or "." not in found.name:
        return None
    return case.launch.flag(f"{found.name.partition('.')[0]}.{key}")


def _in_json(found: Flag | None, pattern: str, group: int) -> tuple[int, int] | None:
    """Offsets in the file of a pattern's group in a flag's value, if the value stands there as read
    and matches once.
    """
    if found is None or not found.value:
        return None
    if found.places:
        return _in_mapping(found, pattern, group)
    if found.value_span is None or found.origin == "python":
        return None
    start = found.value_span.start
    if found.value_span.end - start != len(found.value):
        return None
    matches = list(re.finditer(pattern, found.value))
    if len(matches) != 1:
        return None
    return start + matches[0].start(group), start + matches[0].end(group)


def _in_mapping(found: Flag, pattern: str, group: int) -> tuple[int, int] | None:
    """The same for a mapping of the file, by the places of the characters."""
    matches = list(re.finditer(pattern, found.value or ""))
    if len(matches) != 1:
        return None
    start, end = matches[0].span(group)
    if found.value and found.value[start : start + 1] == '"':
        start, end = start + 1, end - 1  # the file has quotes of its own, or none
    places = found.places[start:end]
    whole = len(places) > 0 and places[0] >= 0 and places[-1] - places[0] == len(places) - 1
    return (places[0], places[-1] + 1) if whole else None


_WORDS = {"true": "True", "false": "False", "null": "None"}


def _at(
    case: Case,
    found: Flag | None,
    place: tuple[int, int] | None,
    text: str,
    what: str,
    *,
    safe: bool = False,
) -> Fix:
    if found is None or place is None:
        return Fix(text=what)
    if found.places:
        text = text[1:-1] if text[:1] == '"' else text
        text = _WORDS.get(text, text) if found.origin == "python" else text
    edit = Edit(file=case.launch.file, start=place[0], end=place[1], text=text)
    place_of = found.span or found.value_span
    return Fix(text=what, safe=safe and not is_shared(case, place_of), edits=(edit,))


# ---------------------------------------------------------------- environment variables


def env_var(case: Case, name: str) -> EnvVar | Flag | None:
    """The variable as read: among the launch's variables, or as the flag that it sets."""
    if case.launch.emitted:
        return None
    for var in reversed(case.launch.env):
        if var.name == name:
            return var
    return next(
        (flag for flag in reversed(case.launch.flags) if flag.origin == "env" and flag.raw == name),
        None,
    )


def rename_env_fix(case: Case, name: str, use: str, what: str, *, safe: bool) -> Fix:
    """Write another variable's name in the place of one."""
    var = env_var(case, name)
    if var is None or var.span is None:
        return Fix(text=what)
    start = var.span.start
    edit = Edit(file=case.launch.file, start=start, end=start + len(name), text=use)
    return Fix(text=what, safe=safe and not is_shared(case, var.span), edits=(edit,))


def drop_env_fix(
    case: Case, name: str, what: str, *, safe: bool, instead: Fix | None = None
) -> Fix:
    """Take a variable away; `instead` is what takes its place (then both edits or none)."""
    var = env_var(case, name)
    if (
        case.launch.emitted
        or var is None
        or var.span is None
        or (instead is not None and not instead.edits)
    ):
        return Fix(text=what)
    edit = Edit(file=case.launch.file, start=var.span.start, end=var.span.end, text="")
    edits = (edit, *(instead.edits if instead is not None else ()))
    return Fix(text=what, safe=safe and not is_shared(case, var.span), edits=edits)


def caching_off_fix(case: Case, what: str) -> Fix:
    """vLLM without prefix caching: the switch that is there is turned, else one is added."""
    name, given = "--no-enable-prefix-caching", flag(case, "--enable-prefix-caching")
    if given is None:
        return add_fix(case, spec_flag(case), name, None, what)
    if given.origin == "cli" and given.value is None and "=" not in given.raw:
        return rename_fix(case, given, name, what, safe=False)
    if given.origin == "python":
        return set_fix(case, given, "False", what)
    return Fix(text=what)


def k_fix(case: Case, k: int, what: str) -> Fix:
    """Another number of draft tokens, wherever the launch gives it."""
    found = k_flag(case)
    if found is None or k < 1:
        return Fix(text=what)
    if found.name == "--speculative-num-steps":
        tokens = flag(case, "--speculative-num-draft-tokens")
        both = [set_fix(case, found, str(k), what), set_fix(case, tokens, str(k + 1), what)]
        topk = flag(case, "--speculative-eagle-topk")
        chain = topk is not None and topk.value == "1"
        return (
            Fix(text=what, edits=(*both[0].edits, *both[1].edits))
            if chain and all(one.edits for one in both)
            else Fix(text=what)
        )
    if found.name in ("--spec-tokens", "--spec-draft-n-max"):
        return set_fix(case, found, str(k), what)
    return json_fix(case, found, "num_speculative_tokens", str(k), what)
