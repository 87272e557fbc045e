"""Edits that rules propose: of flags, of values inside JSON, of environment variables.

Each returns a Fix with edits only where the text stands literally in the file; else the Fix says in
words what to do. `safe` is what the rule says of the meaning; a place that a launch of another
engine or release shares is never safe.
"""

import re
import shlex
from itertools import pairwise

from advisor import engines
from advisor.domain.nouns import Case, Edit, EnvVar, Fix, Flag, Span

Places = Span | tuple[Span, ...] | None
Option = Flag | str | None  # a flag of the launch, or the name of one that it may have
_PLAIN = r'("[^"\\]*"|-?\d+(?:\.\d+)?|true|false|null)'  # a value that holds no others
_END = r"(?=\s*[,}])"
_WORDS = {"true": "True", "false": "False", "null": "None"}


def is_shared(case: Case, place: Span | None, alike: bool = True) -> bool:
    """Whether another launch (with `alike`: of another release) has these characters."""
    if place is None:
        return False
    own = (case.launch.engine, case.launch.engine_version, case.launch.fork)
    for other in case.siblings:
        if alike and (other.engine, other.engine_version, other.fork) == own:
            continue
        spans = [flag.span or flag.value_span for flag in other.flags]
        spans += [var.span or var.value_span for var in other.env]
        if any(span and span.start < place.end and place.start < span.end for span in spans):
            return True
    return False


def is_release_pinned(case: Case) -> bool:
    """Whether the release is fixed and no fork's, so that the catalogue speaks for it."""
    return case.launch.emitted or (case.launch.version_pinned and case.launch.fork is None)


def span_fix(case: Case, place: Places, text: str, what: str, *, safe: bool = False) -> Fix:
    """Write a text in places of the file; in words only where there is none."""
    places = (place,) if isinstance(place, Span) else place or ()
    file = case.launch.file
    edits = tuple(Edit(file=file, start=one.start, end=one.end, text=text) for one in places)
    return Fix(text=what, safe=safe and bool(edits), edits=edits)


def at(start: int, length: int = 0) -> Span | None:
    """So many characters from an offset on; None where the offset is not known."""
    return Span(start=start, end=start + length) if start >= 0 else None


def joint_fix(what: str, *fixes: Fix, safe: bool = False) -> Fix:
    """The edits of several fixes as one; none where one of them has none."""
    if not all(fix.edits for fix in fixes):
        return Fix(text=what)
    return Fix(text=what, safe=safe, edits=tuple(edit for fix in fixes for edit in fix.edits))


# ---------------------------------------------------------------- flags


def rename_fix(case: Case, found: Flag, use: str, what: str, *, safe: bool = False) -> Fix:
    """Replace a flag's name only, so that quotes, `=` and list items around it stay as they are."""
    start = found.span.start if found.span is not None else found.name_at
    name = use if found.raw.startswith("-") else use.lstrip("-")
    if found.origin == "python" or "_" in found.raw:
        name = name[:2] + name[2:].replace("-", "_")
    return span_fix(case, (at(start, len(found.raw)) if found.raw else None), name, what, safe=safe)


class AddedOption(Fix):
    """A fix of what an option is missing for."""


def add_fix(case: Case, beside: Flag | None, name: str, value: str | None, what: str) -> Fix:
    """Add a flag before another one, in the manner of its form. Never safe: it changes what the
    server does.

    In words only where the launch has the option already, in whatever spelling and with whatever
    value: twice is worse.
    """
    option = engines.get(case.launch.engine).catalogue.find(name, None)  # or the off form of one
    names = (name, option.name if option is not None else name)
    if any(case.launch.flag(one) is not None for one in names):
        return Fix(text=what)
    edit = None if case.launch.emitted else addition(case.launch.file, beside, name, value)
    return AddedOption(text=what, edits=(edit,) if edit is not None else ())


def addition(file: str, beside: Flag | None, name: str, value: str | None) -> Edit | None:
    """The edit that puts an option before another one; None where that is a guess."""
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
        word = "False" if off else "True" if value is None else value if number else repr(value)
        text = f"{key.removeprefix('no-').replace('-', '_')}={word}, "
    else:
        return None
    return Edit(file=file, start=beside.span.start, end=beside.span.start, text=text)


def drop_fix(case: Case, option: Option, what: str, *, safe: bool = False) -> Fix:
    """Take a flag away."""
    given = case.flag(option) if isinstance(option, str) else option
    if given is None or given.origin not in ("cli", "ini", "python") or given.unresolved:
        return Fix(text=what)
    safe = safe and not is_shared(case, given.span, alike=False)
    return span_fix(case, given.span, "", what, safe=safe)


def set_fix(case: Case, option: Option, value: str, what: str, *, safe: bool = False) -> Fix:
    """Give a flag another value, whatever its form."""
    given = case.flag(option) if isinstance(option, str) else option
    if given is None or given.unresolved:
        return Fix(text=what)
    safe = safe and not is_shared(case, given.span or given.value_span)
    return span_fix(case, given.value_span, value, what, safe=safe)


def swap_fix(case: Case, one: Flag, other: Flag, what: str) -> Fix:
    """Give each of two flags the value of the other."""
    turned = set_fix(case, one, other.value or "", what)
    return joint_fix(what, turned, set_fix(case, other, one.value or "", what))


# ---------------------------------------------------------------- inside JSON


def json_fix(
    case: Case, found: Flag | None, key: str, value: str, what: str, *, safe: bool = False
) -> Fix:
    """Replace the value of a key (`value` as JSON), and nothing around it."""
    dotted = _dotted_flag(case, found, key)
    if dotted is not None:
        return set_fix(case, dotted, value.strip('"'), what, safe=safe)
    place = _in_json(found, rf'"{re.escape(key)}"\s*:\s*{_PLAIN}{_END}')
    return _json_text(case, found, place, value, what, safe=safe)


def json_rename_fix(case: Case, found: Flag | None, key: str, use: str, what: str) -> Fix:
    """Write another key in the place of one."""
    dotted = _dotted_flag(case, found, key)
    if dotted is None or dotted.span is None:
        return _json_text(case, found, _in_json(found, rf'"({re.escape(key)})"\s*:'), use, what)
    name = at(dotted.span.start, len(dotted.raw)) if dotted.raw.endswith(key) else None
    return span_fix(case, name, dotted.raw[: -len(key)] + use, what)


def json_add_fix(case: Case, found: Flag | None, key: str, value: str, what: str) -> Fix:
    """Add a key at the end of the object."""
    return _json_text(case, found, _in_json(found, r"()\s*\}\s*$"), f',"{key}":{value}', what)


def json_drop_fix(case: Case, found: Flag | None, key: str, what: str) -> Fix:
    """Take a key away that is not the only one."""
    pair = rf'"{re.escape(key)}"\s*:\s*{_PLAIN.replace("(", "(?:", 1)}'
    place = _in_json(found, rf"(\s*,\s*{pair}){_END}") or _in_json(found, rf"({pair}\s*,\s*)")
    return _json_text(case, found, place, "", what)


def _dotted_flag(case: Case, found: Flag | None, key: str) -> Flag | None:
    """--speculative-config.key of a launch that gives the keys one by one."""
    if found is None or "." not in found.name:
        return None
    return case.launch.flag(f"{found.name.partition('.')[0]}.{key}")


def _in_json(found: Flag | None, pattern: str) -> Span | None:
    """The place in the file of a pattern's group in a flag's value, if it is there once."""
    if found is None or not found.value:
        return None
    matches = list(re.finditer(pattern, found.value))
    if len(matches) != 1:
        return None
    start, end = matches[0].span(1)
    if found.places:
        if found.value[start : start + 1] == '"' == found.value[end - 1]:
            start, end = start + 1, end - 1  # the file has quotes of its own, or none
        places, length = found.places[start : end + 1], end - start
        if length and places[0] >= 0 and places[length - 1] == places[0] + length - 1:
            return at(places[0], length)
        apart = length and all(0 <= one < other for one, other in pairwise(places))  # by escapes
        return at(places[0], places[-1] - places[0]) if apart else None
    place = found.value_span
    if place is None or found.origin == "python" or place.end - place.start != len(found.value):
        return None
    return at(place.start + start, end - start)


def _json_text(
    case: Case, found: Flag | None, place: Span | None, text: str, what: str, *, safe: bool = False
) -> Fix:
    if found is None:
        return Fix(text=what)
    if found.places:
        text = text[1:-1] if text[:1] == '"' else text
        text = _WORDS.get(text, text) if found.origin == "python" else text
    safe = safe and not is_shared(case, found.span or found.value_span)
    return span_fix(case, place, text, what, safe=safe)


# ---------------------------------------------------------------- environment variables


def env_var(case: Case, name: str) -> EnvVar | Flag | None:
    """The variable as read: among the launch's variables, or as the flag that it sets."""
    launch = case.launch
    own: list[EnvVar | Flag] = [var for var in reversed(launch.env) if var.name == name]
    own += (one for one in reversed(launch.flags) if one.origin == "env" and one.raw == name)
    return own[0] if own and not launch.emitted else None


def rename_env_fix(case: Case, name: str, use: str, what: str) -> Fix:
    """Write another variable's name in the place of one."""
    var = env_var(case, name)
    place = at(var.span.start, len(name)) if var is not None and var.span is not None else None
    return span_fix(case, place, use, what)


def caching_off_fix(case: Case, what: str) -> Fix:
    """vLLM without prefix caching: the switch that is there is turned, else one is added."""
    name, given = "--no-enable-prefix-caching", case.flag("--enable-prefix-caching")
    if given is None:
        return add_fix(case, case.spec_flag(), name, None, what)
    return switch_fix(case, given, name, what)


def switch_fix(case: Case, given: Flag, name: str, what: str) -> Fix:
    """Turn a switch that is there: `name` is its form that says so."""
    if given.origin == "cli" and "=" not in given.raw:
        return rename_fix(case, given, name, what)
    if given.origin == "python":
        return set_fix(case, given, str(not name.startswith("--no-")), what)
    return Fix(text=what)


def k_fix(case: Case, k: int, what: str) -> Fix:
    """Another number of draft tokens, wherever the launch gives it."""
    given = case.k_flag()
    if given is None or k < 1:
        return Fix(text=what)
    if given.name == "--speculative-num-steps":
        topk = case.flag("--speculative-eagle-topk")
        if topk is None or topk.value != "1":
            return Fix(text=what)
        tokens = set_fix(case, "--speculative-num-draft-tokens", str(k + 1), what)
        return joint_fix(what, set_fix(case, given, str(k), what), tokens)
    if given.name in ("--spec-tokens", "--spec-draft-n-max", "--speculative-dspark-block-size"):
        return set_fix(case, given, str(k), what)
    return json_fix(case, given, "num_speculative_tokens", str(k), what)
