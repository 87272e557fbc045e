import shlex
from itertools import permutations

from advisor.domain.nouns import Case, Fix, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import is_only_near
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.fixes import at, drop_fix, is_release_pinned, joint_fix, rename_fix, span_fix
from advisor.rules.kit.flags import (
    CATALOGUED,
    catalogue,
    catalogued_version,
    lookup_spelling,
    option_at_release,
)
from advisor.rules.kit.values import slip

SERVERS = frozenset(table("compatibility")["server_keywords"]["value"])
PLUGINS = ("--omni",)  # vllm-omni takes vLLM's command line and many options beside
# options of `docker run` that no engine has
DOCKERS = (
    *("-e", "--env", "--env-file", "-v", "--volume", "--gpus", "--ipc", "--shm-size", "-it", "-d"),
    *("--name", "--rm", "--restart", "--network", "-p", "--publish", "--runtime", "--entrypoint"),
)
_PORT = lazy_re(r"\d{4,5}")  # behind -p, as other programs take it
_SIGN = lazy_re(r"(--?[A-Za-z][\w-]*)[:;,](.*)")
_GLUED = lazy_re(r"(--[a-z][\w-]*?)(--[a-z][\w-]*)")
_SHORT = lazy_re(r"-[A-Za-z]")  # a build's own, as often as a slip
_LEAD = lazy_re(r"^--(?:no-)?(?:enable|disable|use)-|^-+")


@rule("SD101", "error", "catalogued ik_llama.cpp", versioned=True)
def unknown_flag(case: Case) -> Hits:
    """A flag that no catalogued release of the engine knows.

    Why: the server refuses to start; such flags often come from another engine, a guess or a typo.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --decode-threshold 4
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    Sources: the engines' own parsers, catalogued by release; nikolatesla20 HALLUCINATED_FLAGS;
        PortOS#4653
    """
    if any(found.raw in PLUGINS for found in case.launch.flags):
        return  # the options of an extension are not catalogued
    yield from abbreviations(case)
    yield from aliases(case)
    version = catalogued_version(case)
    unknown = [found for found in case.launch.flags if option_at_release(case, found) == "unknown"]
    for found in unknown:
        if (hit := written_otherwise(case, found)) is not None:
            yield hit
            continue
        name = lookup_spelling(found)
        near = nearest_option(case, name)
        near = near if near and close(name, near) else None
        misspelt = slip(name, near)
        option = catalogue(case).find(near, version or catalogue(case).newest) if near else None
        if near and (option is None or option.removed):  # what took its place
            near = catalogue(case).successor(near, version) or near
        said, meant = (set(one.strip("-").split("-")) for one in (name, near or ""))
        misspelt = misspelt or (len(said) > 2 and said < meant)  # words left out or turned
        if case.plan.engine not in CATALOGUED and not misspelt:
            continue  # a fork without a catalogue of its own
        hint = f"; the nearest is {near}" if near else ""
        strange = near is None or len(unknown) > 2 or _SHORT.match(found.raw) is not None
        # several options that resemble none are a patched build's, where no release is pinned
        patched = strange and len(unknown) > 1 and not is_release_pinned(case)
        weight: Severity | None = "info" if case.launch.fork else "warning" if patched else None
        yield Hit(
            f"{case.plan.engine} has no option {found.raw}{hint}",
            flag=found,
            fix=mend(case, found, near, misspelt),
            severity=None if misspelt else weight,
            versions="all catalogued releases",
            everywhere=True,
            slip=misspelt,
            sole=misspelt and is_only_near(name, near, catalogue(case).spellings(version)),
        )


def written_otherwise(case: Case, found: Flag) -> Hit | None:
    """The hit of an option that is there in another spelling, or that is docker's."""
    known, version = catalogue(case), catalogued_version(case)
    cut, two = _SIGN.fullmatch(found.raw), _GLUED.fullmatch(found.raw)
    if cut and known.find(cut[1], None) is not None:
        return sign_hit(case, found, cut[1], cut[2], "a value is given after a space")
    if found.raw == "-p" and _PORT.fullmatch(found.value or ""):
        text = f"{case.plan.engine} has no option -p; the port is given by --port"
        return respelt(found, text, rename_fix(case, found, "--port", "Write --port."))
    if two and all(known.find(one, None) is not None for one in two.groups()):
        return sign_hit(case, found, two[1], two[2], f"a blank is missing before {two[2]}")
    match = known.match(lookup_spelling(found), version)
    if match is None:
        return behind_the_image(case, found)
    if match.abbreviated:  # a keyword, which nothing completes
        return keyword_cut_short(case, found, match.spelling)
    dashes = found.origin == "ini" or "_" in found.raw
    return (underscore_hit if dashes else join_value)(case, found)


def behind_the_image(case: Case, found: Flag) -> Hit | None:
    """An option of `docker run` behind the image, where it is the server's."""
    container, name = case.launch.container, found.raw.partition("=")[0]
    short = not name.startswith("--") and case.plan.engine not in ("vllm", "sglang")
    if container is None or container.kind != "docker-run" or name not in DOCKERS or short:
        return None
    what, place = f"Move {found.raw} before the image.", container.image_span
    words = " ".join((found.raw, *([shlex.quote(found.value)] if found.value else ())))
    put = span_fix(case, place and at(place.start), f"{words} ", what)
    return Hit(
        f"{found.raw} is an option of docker run: after the image it is passed to the server",
        flag=found,
        severity="info" if case.launch.fork else None,
        fix=joint_fix(what, drop_fix(case, found, what), put),
        slip=True,
    )


def aliases(case: Case) -> Hits:
    """Names of the command line that are no fields of the class of arguments."""
    for found in case.launch.flags:
        if found.origin != "python" or not found.known:
            continue
        option = catalogue(case).find(lookup_spelling(found), catalogued_version(case))
        engine, field = case.plan.engine, option.name.strip("-").replace("-", "_") if option else ""
        if engine == "vllm" and found.raw in SERVERS:
            text = f"vllm's classes take no {found.raw}: it is an option of the server"
            yield respelt(found, text, drop_fix(case, found, f"Take {found.raw} away."))
        if option is None or field == found.raw:
            continue
        text = f"{engine} has no keyword {found.raw}: in Python it is {field}"
        if engine == "vllm" and found.raw.startswith("no_"):
            yield respelt(found, text, f"Write {field}=False.")
        elif engine == "sglang" and f"--{found.raw}".replace("_", "-") in option.flags:
            yield respelt(found, text, rename_fix(case, found, option.name, f"Write {field}."))


def abbreviations(case: Case) -> Hits:
    """Keywords of Ray Serve's class, which nothing completes as argparse does."""
    for found in case.launch.flags if case.launch.form == "ray-serve" else ():
        if found.origin not in ("cli", "yaml") or not found.known or "." in found.name:
            continue
        match = catalogue(case).match(lookup_spelling(found), catalogued_version(case))
        if match is not None and match.abbreviated:
            yield keyword_cut_short(case, found, match.spelling)


def keyword_cut_short(case: Case, found: Flag, full: str) -> Hit:
    """The hit of a keyword of Python that is only the beginning of one."""
    field = full.strip("-").replace("-", "_")
    text = f"{case.plan.engine} has no option {found.raw}: in full it is {field}"
    return respelt(found, text, rename_fix(case, found, full, f"Write {field}."))


def respelt(flag: Flag, message: str, fix: Fix | str) -> Hit:
    """The hit of an option that every build takes in another spelling."""
    return Hit(message, flag=flag, fix=fix, slip=True, sole=True)


def sign_hit(case: Case, found: Flag, name: str, value: str, why: str) -> Hit:
    """`--flag:value`, `--flag:` and `--flag--another`: a sign for a blank, or none."""
    text = f"{name} {shlex.quote(value)}" if value else name
    literal = found.origin == "cli" and not found.unresolved
    return respelt(
        found,
        f"{case.plan.engine} has no option {found.raw}: {why}",
        rename_fix(case, found, text, f"Write {text}.") if literal else f"Write {text}.",
    )


def underscore_hit(case: Case, found: Flag) -> Hit:
    """Underscores where a parser compares as it stands: the server stops."""
    key = found.raw.replace("_", "-")
    place = at(found.span.start, len(key)) if found.span is not None else None
    where = f"{case.plan.engine} has no option {found.raw}"
    if found.origin == "ini":
        where = f"a preset has no key '{found.raw}'"
    text = f"{where}: {key} is written with dashes"
    return respelt(found, text, span_fix(case, place, key, f"Write {key}."))


def join_value(case: Case, found: Flag) -> Hit:
    """`--flag=value` where the engine takes the value as an argument of its own."""
    value = found.value or ""
    option = catalogue(case).find(found.name, catalogued_version(case))
    bare = option is not None and option.takes_value is False
    text = f"{found.raw} {value if found.unresolved else shlex.quote(value)}"
    if bare and value.lower() in ("true", "1", "on", "yes"):
        text = found.raw
    fix: Fix | str = f"Write {text}."
    if not found.unresolved:
        fix = span_fix(case, found.span, text, f"Write {text}.", safe=is_release_pinned(case))
    what = "it is a switch" if bare else "pass the value as a separate argument"
    return respelt(found, f"{case.plan.engine} does not read {found.raw}=VALUE: {what}", fix)


def mend(case: Case, found: Flag, near: str | None, misspelt: bool) -> Fix:
    """The option that was meant, where it can hardly be another; else the option taken away."""
    if near is None:
        return drop_fix(case, found, f"Remove {found.raw}.")
    what = f"Use {near} if that is meant."
    if (misspelt or found.origin == "python") and found.origin != "env":
        return rename_fix(case, found, near, what)
    return Fix(text=what)


def nearest_option(case: Case, word: str) -> str | None:
    """The nearest option, never the one that says the opposite."""
    known, version = catalogue(case), catalogued_version(case)
    mixed = {word[0] + "".join(turn) for turn in permutations(word[1:])} if len(word) < 6 else ()
    turned = [one for one in sorted(mixed) if one != word and known.find(one, version) is not None]
    near = turned[0] if len(turned) == 1 else known.nearest(word, version)
    if near is None or word.replace("--no-", "--") != near.replace("--no-", "--"):
        return near
    other = word.replace("--no-disable-", "--enable-").replace("--no-enable-", "--disable-")
    return other if other != word and known.find(other, version or known.newest) else None


def close(word: str, near: str) -> bool:
    """Whether two options share more than the word that they begin with."""
    from difflib import SequenceMatcher

    return (
        sorted(word) == sorted(near)
        or SequenceMatcher(None, _LEAD.sub("", word), _LEAD.sub("", near)).ratio() >= 0.6
    )
