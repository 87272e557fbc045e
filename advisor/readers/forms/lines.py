"""Texts that are read line by line: command files of Windows, and those whose language is not known
(make, just, PowerShell, Nix, Terraform). A name that is set to one value stands for it.
"""

import re
from functools import partial

from advisor.domain.launches import CutOff, CutOffCause
from advisor.domain.patterns import lazy_re
from advisor.readers.command import read_command
from advisor.readers.engine_command import Env, EnvItem
from advisor.readers.programs import (
    ENGINE_TEXT,
    LAUNCHERS,
    RUNTIMES,
    SHELLS,
    base_name,
    engine_start,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import HOLE, Mapped, hole, literal, replace_matches

MAX_LINE, MAX_NAMES, MAX_VALUE = 20_000, 500, 2_000
_REMARK = lazy_re(
    r"^[ \t]*(?:#(?!!)|//|::|;|@?rem\b)[^\n]*|[ \t]#[ \t][^\n]*|/\*(?:[^*]|\*(?!/)){0,9000}\*/"
    r"|<#(?:[^#]|#(?!>)){0,9000}#>",
    re.M | re.I,
)
_CONTINUED = {"batch": lazy_re(r"[ \t](\^|\\)[ \t]*\r?\n"), "text": lazy_re(r"[\\`^][ \t]*\r?\n")}
_ASSIGNMENT = lazy_re(
    r"^[ \t]*(?:@?(?:if|for)[ \t][^\n]{0,200}?[ \t(])?"
    r"(@?set[ \t]+(?:/a[ \t]+)?\"?|\$env:|export[ \t]+|\$)?"
    r"([A-Za-z_]\w*)[ \t]*[:?]?=(?!=)[ \t]*([^\n]*)",
    re.M | re.I,
)
_MARK = lazy_re(
    r"%%(?:~[a-zA-Z$:]{0,9})?([A-Za-z])(?![A-Za-z])|\$?\{\{-?[ \t]*([^{}\n]{1,200})\}\}"
    r"|\$\{([^{}\n]{1,200})\}|\$\(([^()\n]{1,200})\)"
    r"|%([A-Za-z_]\w*)(?::[^%\n]*)?%|%~[a-z]{0,9}(\d)|!([A-Za-z_]\w*)!"
    r"|(?:\$|(?<=\s)@)(?:env:|script:|global:)?([A-Za-z_]\w*)"
)
_PARENS = r"\((?:[^()]|\([^()]*\)){0,500}\)"
_LIST = lazy_re(rf"@\(((?:[^()\"']|\"[^\"\n]*\"|'[^'\n]*'|{_PARENS}){{0,2000}})\)")
_BETWEEN = lazy_re(rf"(\"[^\"\n]*\"|'[^'\n]*')|((?:\[\w.]+\])?{_PARENS})|[ \t]*[,\r\n][\s,]*")
_PARAMETER = lazy_re(r"-[A-Z][A-Za-z]+")  # of a command of PowerShell
_CONDITION = lazy_re(
    r"\s*@?if\s+(?:/i\s+)?(?:not\s+)?(?:defined\s+\S+|exist\s+(?:\"[^\"]*\"|\S+)|errorlevel\s+\d+"
    r"|(?:\"[^\"]*\"|[^\s\"=]+)\s*(?:==|\s(?:equ|neq|lss|leq|gtr|geq)\s)\s*(?:\"[^\"]*\"|[^\s\"]+))"
    r"\s+\(?",
    re.I,
)
_WORD = lazy_re(rf"""(?:{HOLE.pattern}|"(?:\\"|""|[^"])*"|'[^']*'|[^\s"'])+""")
_OPERATOR = lazy_re(r"\s(?:&&|&|\|\|?|;)\s")
_QUOTE = lazy_re(r'\\"|""|"')
_QUOTED = lazy_re(rf"\"[^\"\n]*\"|{HOLE.pattern}")
_DEFAULT = lazy_re(r"env\w*\([^,()\n]*,[ \t]*(\"[^\"\n]*\"|'[^'\n]*')\)")  # of a variable, in just
_CALL = lazy_re(r"(?:[a-z_]\w*|if |switch )\(")
_LEADS = ("start", "call", "&", "cmd", "/c", "/k", "", "@call", "/b", "/wait", "/min")
_RECIPE, _DOLLARS = lazy_re(r"\t[ \t]*[@+-]*[ \t]*"), lazy_re(r"\$\$|\ue003")  # a shell's $ in make
_LEAD = lazy_re(r"[@+!-]{1,3}(?=\w)")  # of a recipe of make and just
_SETS = lazy_re(r"[A-Za-z_]\w*=")
_WRONG_SIGN = lazy_re(r"(?:\^([ \t]+)|[ \t]\\[ \t]*)\r?\n[ \t]*(-{1,2}[A-Za-z][\w-]*)")


def read_batch(reading: Reading, form: str = "batch") -> None:
    """A command file of Windows, or a text of no known language."""
    reading.form = form
    source = reading.source.text
    if not ENGINE_TEXT.search(source):
        return
    code = _REMARK.sub(lambda remark: re.sub(r"[^\n]", " ", remark.group()), source)
    text = Mapped(code, range(len(code)))
    text = replace_matches(text, _LIST, lambda found, _: _items(text.part(*found.span(1))))
    names, env = _assignments(text)
    joined = replace_matches(text, _CONTINUED[form], lambda _, at: literal(" ", -2))
    at = 0
    for raw in joined.text.splitlines(keepends=True):
        line = joined.part(at, at + len(raw.rstrip("\r\n")))
        at += len(raw)
        if not reading.step():
            return
        if len(line) > MAX_LINE:
            note = f"a line of {len(line)} characters is not read"
            reading.note(note, line.first(), cut_short=True)
        else:
            setting = _ASSIGNMENT.match(line.text)
            command = form == "text" and setting is not None and not setting[1]
            named = "-ArgumentList" in line.text
            if setting is None or named or (command and ENGINE_TEXT.search(setting[3])):
                _read_line(line, names, env, reading)


read_any = partial(read_batch, form="text")  # a text of no known language


def _items(inside: Mapped) -> Mapped:
    """The items of a list with blanks between them; an expression among them is a hole."""

    def item(found: re.Match[str], at: int) -> Mapped | None:
        return None if found[1] else hole("expression", at) if found[2] else literal(" ", -2)

    return replace_matches(inside, _BETWEEN, item)


def _with_list(line: Mapped) -> list[Mapped]:
    """The program and the arguments of a command of PowerShell that takes them as a list."""
    words = words_of(_items(line))
    said = [word.text.lower() for word in words]
    if "-argumentlist" not in said:
        return words
    at = said.index("-argumentlist")
    end = next((i for i in range(at + 1, len(words)) if _PARAMETER.fullmatch(words[i].text)), None)
    program = said.index("-filepath") + 1 if "-filepath" in said[:at] else at - 1
    return [words[max(program, 0)], *words[at + 1 : end]]


def _assignments(text: Mapped) -> tuple[dict[str, Mapped], Env]:
    """The names that are set to one value and to no other, and the environment."""
    values: dict[str, Mapped | None] = {}
    env: Env = {}
    for found in _ASSIGNMENT.finditer(text.text):
        lead, name, default = (found[1] or "").lower(), found[2], _DEFAULT.match(found[3])
        written = (default[1] if default else found[3]).rstrip()
        start = found.start(3) + (default.start(1) if default else 0)
        if "(" in found[0][: found.start(3) - found.start()]:
            written = written.removesuffix(")")
        value = text.part(start, start + len(written))
        if lead.endswith('"'):
            value = value.part(0, len(value) - 1)
        key = name.lower()
        known = values.get(key)
        # what may be set does not replace what is
        stays = known is not None and known.text and _CONDITION.match(found[0])
        if stays or len(value) > MAX_VALUE or len(values) > MAX_NAMES:
            continue
        same = key not in values or (known is not None and known.text in ("", value.text))
        called = lead == "$" and (written[:1] in ("(", "[") or "-ArgumentList" in written)
        values[key] = value if same and not (called or _CALL.match(written)) else None
        if lead.lstrip("@").startswith(("set", "$env:", "export")):
            env[name] = EnvItem(_fill(unquote(value), {}), text.pos[found.start(2)])
    return {name: value for name, value in values.items() if value is not None}, env


def _fill(text: Mapped, names: dict[str, Mapped], depth: int = 0) -> Mapped:
    """The text with the values that it names; what is not known is a hole."""

    def value_of(mark: re.Match[str], at: int) -> Mapped | None:
        name = next(group for group in mark.groups() if group).strip()
        value = names.get(name.lower())
        if value is None and mark.group().startswith("@"):
            return None
        return hole(name, at) if value is None or depth > 3 else _fill(value, names, depth + 1)

    return replace_matches(text, _MARK, value_of)


def _read_line(line: Mapped, names: dict[str, Mapped], env: Env, reading: Reading) -> None:
    """The commands of a line, between `&&`, `&` and `|` outside quotes."""
    while (condition := _CONDITION.match(line.text)) is not None:
        line = line.part(condition.end(), len(line.text.rstrip().removesuffix(")")))
    if "$$" in line.text and (recipe := _RECIPE.match(line.text)):
        line = line.part(recipe.end(), len(line))
        line = _fill(replace_matches(line, _DOLLARS, lambda _, at: literal("\ue003", at)), names)
        line = replace_matches(line, _DOLLARS, lambda _, at: literal("$", at))
        reading.shell(line, passed=env, depth=1)
        return
    line = _fill(line, names)
    masked = _QUOTED.sub(lambda text: "x" * len(text.group()), line.text)
    ends = [*((cut.start(), cut.end()) for cut in _OPERATOR.finditer(masked)), (len(line), 0)]
    start = 0
    for end, after in ends:
        part = line.part(start, end)
        words = _with_list(part) if "-argumentlist " in part.text.lower() else words_of(part)
        while words and words[0].text.lower() in _LEADS:
            words = words[1:]
        if words and (lead := _LEAD.match(words[0].text)):
            words[0] = words[0].part(lead.end(), len(words[0]))
        start, before = after, len(reading.found)
        starts = words and (reading.form == "batch" or _starts(words))
        if starts and reading.spend(1 + len(words) // 50):
            read_command(words, reading, env, at=line.first())
            reading.run_at(before, line.first())
        if reading.form == "batch" and len(reading.found) > before:
            reading.found[before].said = _wrong_sign(line, reading)


def _starts(words: list[Mapped]) -> bool:
    """Whether a line begins with a program that can start a server; prose only names one."""
    return (
        base_name(words[0].text) in SHELLS | RUNTIMES | LAUNCHERS | {"exec", "env"}
        or _SETS.match(words[0].text) is not None
        or (engine_start(words, 0) is not None and words[0].text[-1:] != ":")  # a target of make
    )


def _wrong_sign(line: Mapped, reading: Reading) -> CutOff | None:
    """The option below a line that ends in a backslash, or in a caret with blanks behind it."""
    places = [at for at in line.pos if at >= 0]
    found = _WRONG_SIGN.search(reading.source.text, places[0], places[-1] + 1)
    if found is None:
        return None
    below = reading.source.place(found.start(2))[0]
    cause: CutOffCause = "blanks in batch" if found[1] else "wrong sign"
    return CutOff(options=found[2], line=below, cause=cause)


def words_of(line: Mapped) -> list[Mapped]:
    """The words of a line, without their quotes."""
    return [unquote(line.part(*word.span())) for word in _WORD.finditer(line.text)]


def unquote(word: Mapped) -> Mapped:
    r"""Quotes fall away, `\"` and `""` inside them are a quote."""
    text = word.text
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return word.part(1, len(text) - 1)

    def text_of(quote: re.Match[str], _: int) -> Mapped:
        doubled = len(quote.group()) == 2 and 0 < quote.start() < len(text) - 2
        return word.part(quote.end() - doubled, quote.end())

    return replace_matches(word, _QUOTE, text_of)
