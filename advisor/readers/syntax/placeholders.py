"""Words that are to be filled in before a text is used: they are unknown, never wrong."""

from functools import lru_cache

from advisor.domain.patterns import lazy_re

# `cmd <in >out` is a redirection: there the bracket closes after a blank, or with a name behind it
ANGLE = (
    r"(?<![<&\d])<((?:[A-Za-z]|\d+_|\d+ ?\*)[^<>\n\"'`$|;&(){}\\]{0,160})(?<!\s)>(?!\w|\(|&|/dev/)"
)
# what is no JSON in doubled braces; blanks and a dash before the end are trimmed later
BRACES = r"\$?\{\{-?[ \t]*([A-Za-z_.$][^{}\n]{0,400})\}\}"
# `${accelerator.dtype}`, of a program's own templates: no shell has such a name
DOTTED = r"\$\{([A-Za-z_]\w*(?:\.\w+)+)\}"

_MARKS = (
    *(ANGLE, BRACES, DOTTED, r"\$\([A-Z][A-Z0-9_]*\)", r"(?<!\$)\{[A-Za-z_]\w*\}", r"%\(\w+\)s"),
    r"(?<!\w)__(?!(?:main|init|name|file)__)[A-Za-z]\w*?__(?!\w)",
    r"(?<!\w)@[A-Z][A-Z0-9_]*@(?!\w)",
    r"(?<![\w%])%[A-Z][A-Z0-9_]*%(?![\w%])",
    r"\[[A-Z][A-Z0-9_]{2,}\]",
    r"(?<![\w.])\.\.\.(?![\w.])",
    "\u2026",
    r"<<[A-Za-z]\w*>>|#\{\w+\}|(?<![\w$])\$[A-Z]\w*\$(?!\w)",
    r"(?<![\w.-])(?:[xX]{3,}|(?i:tbd|todo|fixme))(?![\w.-])",
    r"(?<![A-Za-z])(?:FILL[_-](?:IN|ME)|PATH_TO_\w+|[A-Z]+_(?:NAME|HERE))(?![A-Za-z])",
    r"YOUR|PLACEHOLDER|TODO|FIXME|(?<![A-Za-z])(?:REPLACE|CHANGE|INSERT|PIN|TBD|XXX)(?![a-z])",
    r"(?<![A-Za-z])(?:[Yy]our[_-]\w|(?:change|replace)[_-]?me(?![a-z]))",
)
_LEFT_OPEN = lazy_re("|".join(_MARKS))
_LIKELY = lazy_re(  # most words have none
    r"[<{]|[%$]\(|\.\.\.|__|@[A-Z]|%[A-Z]|\[[A-Z]|\u2026|YOUR|PLACE|TODO|FIXME|REPL|CHANGE|INSERT"
    r"|PIN|TBD|XXX|our[_-]|me|FILL|PATH_|_NAME|_HERE|[xX]{3}|#\{|\$\w+\$|(?i:tbd|todo|fixme)"
)
_SIGN = lazy_re(r"[${<\ue000]|%[\w({]")
_CAPITALS = lazy_re(
    r"(?<![\w.])(?!(?:TRUE|FALSE|NONE|NULL|AUTO|ALL|INF|NAN|ON|OFF|YES|NO)\b)"
    r"[A-Z][A-Z0-9]+(?:[_-][A-Z0-9]+)*(?![\w.])"
)


@lru_cache(maxsize=1024)  # the same words stand in every file
def left_open(text: str) -> bool:
    """Whether a text, JSON and prose too, holds a mark or a name that is to be replaced."""
    return _LIKELY.search(text) is not None and _LEFT_OPEN.search(text) is not None


@lru_cache(maxsize=1024)
def to_fill(word: str, *, named: bool = False) -> bool:
    """The same of a path or a port; `named`: a part in capitals is a placeholder too."""
    return (
        _SIGN.search(word) is not None
        or left_open(word)
        or (named and _CAPITALS.search(word) is not None)
    )
