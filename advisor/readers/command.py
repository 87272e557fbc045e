"""From the words of a command to the engine that it starts, through wrappers and nested shells."""

import re
from collections.abc import Callable

from advisor.domain.patterns import lazy_re
from advisor.engines import no_mtp_answer
from advisor.engines.traits import gguf_engine
from advisor.readers.containers import container_command
from advisor.readers.docker_run import docker_run
from advisor.readers.engine_command import EngineCommand, Env, EnvItem, Surroundings
from advisor.readers.programs import (
    BYSTANDERS,
    CLUSTER,
    CMDLET,
    ENGINE_TEXT,
    LAUNCHERS,
    OTHER_ENGINES,
    RUNTIMES,
    SHELLS,
    base_name,
    engine_start,
    likely_module,
    likely_serve,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, HOLE, Mapped, show
from advisor.readers.syntax.scope import Scope

_OPTION = lazy_re(r"--[a-z][a-z-]*=")
_ASSIGN = lazy_re(r"^[A-Za-z_]\w*=(?!=)")
# make and just: quiet, go on after a failure, run always; a notebook: run by the shell
_RECIPE_LEAD = lazy_re(r"[@+!-]{1,3}(?=[\w./])")
MAX_DEPTH = 12


def read_command(
    words: list[Mapped],
    reading: Reading,
    env: Env | Callable[[], Env] | None = None,
    *,
    scope: Scope | None = None,
    around: Surroundings | None = None,
    at: int = -1,
    depth: int = 0,
) -> bool:
    """Find what a command starts and add it to the reading; whether it started anything. `at` is
    the place of words that were made from variables.
    """
    if not words or depth > MAX_DEPTH or not reading.step():
        return False
    own: Env = {}

    def whole() -> Env:
        return {**((env() if callable(env) else env) or {}), **own}

    lead = _RECIPE_LEAD.match(words[0].text)
    if lead is not None:
        words = [words[0].part(lead.end(), len(words[0])), *words[1:]]
    i = _leading_env(words, own)
    if i < len(words) and base_name(words[i].text) in BYSTANDERS:
        _other_engine(words[i:], reading)
        return False
    if i < len(words) and _starts_nothing(words, i):
        return False
    plain = i
    while i < len(words):
        name = base_name(words[i].text)
        begin = words[i].first() if words[i].first() >= 0 else at
        named = i > 0 and _NAMES_A_PROGRAM.match(words[i - 1].text)  # another program's option
        start = None if named else engine_start(words, i)
        after = words[start[1] : start[1] + 3] if start else []
        optioned = any(_DASHED.match(word.text) or word.has_hole for word in after)
        if start and (i == plain or optioned or base_name(words[plain].text) in LAUNCHERS):
            engine, first = start
            args = words[first:]
            named_only = not args and reading.form == "python"
            if named_only or _only_asks(args) or _is_prose(engine, args):
                return False
            _check_start(words, first, reading)
            end = next((n for n, word in enumerate(args) if word.text in _OPERATORS), len(args))
            if end < len(args) and reading.form in ("systemd", "quadlet", "compose", "kubernetes"):
                said = f"no shell reads this: {args[end].text} reaches the server as an argument"
                reading.slip(said, args[end].first() - 1, (args[-1].span() or (0, None))[1])
            fork = "llama-cpp-python" if words[first - 1].text.startswith("llama_cpp") else None
            about = (whole(), begin, reading.form, around, fork)
            reading.add(EngineCommand(engine, args[:end], *about))
            return True
        script = _script_of(words, i) if name in SHELLS else None
        if name in RUNTIMES and (ran := docker_run(words, i, reading, scope)) is not None:
            return container_command(ran, reading, begin, depth + 1)
        # whether a text in quotes may hold a command that starts an engine
        if (
            i > plain
            and " " in words[i].text
            and ENGINE_TEXT.search(HOLE.sub("", words[i].text))
            and not _ASIDE.search(words[i].text)
        ):
            option = _OPTION.match(words[i].text)  # sbatch --wrap="vllm serve ..."
            script = words[i].part(option.end(), len(words[i])) if option else words[i]
        if script is not None:
            inner = _scope_of(script, words, i, whole(), scope)
            return reading.shell(script, inner, around=around, depth=depth + 1, passed=whole())
        if i > plain and _ASSIGN.match(words[i].text):
            _assign(words[i], own)
        i += 1
    _other_engine(words, reading)
    return False


_MODULE = lazy_re(r"(?:vllm|sglang)(?:\.[\w-]+)+(?<!\.py)")


def _check_start(words: list[Mapped], first: int, reading: Reading) -> None:
    """Say where the words before an engine's arguments start nothing."""
    word, text = words[first - 1], words[first - 1].text
    before = base_name(words[first - 2].text) if first > 1 else ""
    if base_name(word.text) == "vllm":
        after = words[first].span() if first < len(words) else None
        quote = reading.source.text[after[0] - 1 : after[0]] if after else ""
        lead = f"serve{quote}, {quote}" if quote in ("'", '"') and quote else "serve "
        said = "vllm needs its command: serve comes before the options"
        reading.slip(said, after[0] if after else word.first(), after and after[0], lead)
        return
    if text in ("vllm-serve", "vllm_serve") or (
        likely_serve(text) and before in ("vllm", "sglang")
    ):
        meant = "serve" if likely_serve(text) else "vllm serve"
        said = f"there is no command '{text}': {meant} is meant"
    elif not _MODULE.fullmatch(text):
        return
    elif before != "-m" and before.startswith("python"):
        meant = f"-m {text}"
        said = f"Python takes '{text}' for a file: a module is given with -m"
    else:
        dashed = text.replace("-", "_")
        meant = likely_module(dashed) or dashed
        said = f"Python has no module '{text}'; '{meant}' is meant"
    if meant != text:
        place = word.span()
        reading.slip(said, word.first(), place and place[1], meant)


_NAMES_A_PROGRAM = lazy_re(r"--[\w-]*(?:bin|binary|server|exe|executable|program|path)$")
_BULLETS = frozenset(("-", "*", "+"))
# what a container's runtime does with containers that run, which may be named after the server
_CARE = """
attach build commit cp diff events history images info inspect kill load logs network pause port ps
pull push rename restart rm rmi save start stats stop system tag top unpause update volume wait up
down config
"""
_CONTAINER_CARE = frozenset(_CARE.split())


def _starts_nothing(words: list[Mapped], i: int) -> bool:
    """A list item of prose, a cmdlet with a name, `docker stats llama-server`, `kubectl logs`."""
    names_pods = base_name(words[i].text) in CLUSTER and all(word.text != "--" for word in words)
    if names_pods or words[i].text in _BULLETS or CMDLET.fullmatch(words[i].text):
        return True
    if base_name(words[i].text) not in RUNTIMES:
        return False
    verbs = [word.text for word in words[i + 1 : i + 6] if not word.text.startswith("-")]
    if verbs[:1] in (["compose"], ["container"]):
        verbs = verbs[1:]
    if verbs[:1] == ["exec"]:
        inner = range(i + 3, len(words))
        return (len(verbs) > 2 and verbs[2] in BYSTANDERS) or not any(
            engine_start(words, j) or base_name(words[j].text) in SHELLS for j in inner
        )
    return bool(verbs) and verbs[0] in _CONTAINER_CARE


_ADDRESS = lazy_re(r"localhost|\d{1,3}(?:\.\d{1,3}){3}")  # behind -h, meant for --host
_ASKS = frozenset(("--version", "--help", "-h", "--usage", "--list-devices"))


def _only_asks(args: list[Mapped]) -> bool:
    """Whether the program is asked for its version or its options, and ends."""
    return any(
        word.text.rstrip(").,;") in _ASKS
        and not (word.text == "-h" and args[at + 1 :] and _ADDRESS.fullmatch(args[at + 1].text))
        for at, word in enumerate(args[:3])
    )


_ASIDE = lazy_re(r"llama[-_]server\s+\(")  # `title "llama-server (on this host)"`
_LETTERS = lazy_re(r"[A-Za-z]+[,.:;]?")
_DASHED = lazy_re(r"--?[A-Za-z]")
_LEAD_WORDS = "env exec sudo command nohup time then do & call @ ! builtin"
_LEADS = frozenset(_LEAD_WORDS.split())


def _is_prose(engine: str, args: list[Mapped]) -> bool:
    """Whether a sentence goes on behind the program's name: `"llama-server built and linked"`."""
    taken = 2 if gguf_engine(engine) else 3
    return len(args) >= taken and all(_LETTERS.fullmatch(word.text) for word in args[:taken])


def _leading_env(words: list[Mapped], env: Env) -> int:
    """Skip `A=b`, `env`, `exec`, `sudo` and their like; assignments go to the environment."""
    for i, word in enumerate(words):
        if _ASSIGN.match(word.text):
            _assign(word, env)
        elif word.text not in _LEADS:
            return i
    return len(words)


def _assign(word: Mapped, env: Env) -> None:
    cut = word.text.index("=")
    value = word.part(cut + 1, len(word)) if cut + 1 < len(word) else EMPTY
    env[word.text[:cut]] = EnvItem(value, word.first())


# of a shell that was not expected there
_OPERATORS = ("&&", "||", ";", "|", "2>&1", ">", ">>", "&", "&>")


def _script_of(words: list[Mapped], i: int) -> Mapped | None:
    for j in range(i + 1, min(i + 8, len(words))):
        text = words[j].text
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text) and j + 1 < len(words):
            return words[j + 2 if words[j + 1].text == "--" and j + 2 < len(words) else j + 1]
        plain = not text.startswith(("-", "+")) and text not in SHELLS
        if plain and words[j - 1].text not in ("-o", "+o", "-O"):
            return None
    return None


def _scope_of(script: Mapped, words: list[Mapped], i: int, env: Env, scope: Scope | None) -> Scope:
    """What a shell text inside a command knows; what follows it are its `$0 $1 ...`."""
    where = next((j for j in range(i, len(words)) if words[j] is script), i)
    inner = Scope.inside(env, words[where + 2 :])
    if scope is not None:
        for name in scope.exported:
            inner.values.setdefault(name, scope.values.get(name, EMPTY))
    inner.exported = dict.fromkeys(inner.values, -1) | {name: item.at for name, item in env.items()}
    return inner


def _other_engine(words: list[Mapped], reading: Reading) -> None:
    """Say so where the command starts an engine that has no MTP path."""
    found = OTHER_ENGINES.search(" ".join(show(word.text) for word in words[:8]))
    if found and not reading.found:
        said = no_mtp_answer(re.split(r"[\s._-]", found[1])[0]) or "this program does not judge it"
        reading.note(f"starts {found[1]}: {said}", words[0].first())
