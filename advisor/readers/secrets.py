"""Keeps secrets out of every output: one redactor per file, fed while reading, asked before
printing.

A secret is the value of a variable or flag with a telling name, or text that has a token's form
(`hf_...`, `sk-...`).
"""

from __future__ import annotations

import re

from advisor.readers.syntax.lazy import Lazy

HIDDEN = "[redacted]"
_NAME = Lazy(
    r"(TOKEN|SECRET|PASSW(OR)?D|PASSWD|CREDENTIALS?|PRIVATE[_-]?KEY|API[_-]?KEY|ACCESS[_-]?KEY|AUTH([_-]KEY)?|HF[_-]?KEY"
    r"|[_-]KEY|BEARER|COOKIE|SESSION[_-]?KEY|ENCRYPTION[_-]?KEY|\bPAT)$",
    re.I,
)
_NOT_SECRET = Lazy(
    r"(PAD|EOS|BOS|MASK|STOP|MAX|NUM|PER|IMAGE|AUDIO|THINK|DRAFT|SPEC|BATCHED|PREFILL)[_-]?TOKEN$",
    re.I,
)
_FLAG = Lazy(
    r"^--?(api[-_]key|.*[-_](token|secret|password|api[-_]key|auth[-_]key)|hf[-_]?token|hft|password|token|secret)$",
    re.I,
)
_FORM = Lazy(
    r"hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|nvapi-[\w-]{16,}|eyJ[\w-]{16,}\.[\w-]{8,}(?:\.[\w-]*)?"
    r"|(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)|(?<=[Bb]earer )[\w.~+/=-]{8,}"
)
_PLACEHOLDER = Lazy(
    r"^(|\$.*|[xX*.]+|<.*>|none|null|true|false|0|1|-?\d{1,3}|empty|changeme|your.*|dummy)$", re.I
)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(_NAME.search(name)) and not _NOT_SECRET.search(name)


def is_secret_flag(name: str) -> bool:
    """Whether an option of this name takes a secret."""
    return bool(_FLAG.match(name)) and not _NOT_SECRET.search(name)


class Redactor:
    """Collects the secrets of the texts that were read; `clean` takes them out of anything that is
    to be shown.
    """

    def __init__(self) -> None:
        self.values: set[str] = set()

    def learn(self, value: str) -> None:
        """Remember a secret value (placeholders and references to variables are none)."""
        value = value.strip()
        if len(value) >= 4 and not _PLACEHOLDER.match(value):
            self.values.add(value)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for value in sorted(self.values, key=len, reverse=True):
            if value in text:
                text = _replaced(text, value)
        return _FORM.sub(HIDDEN, text)


def _replaced(text: str, value: str) -> str:
    """A short secret that is also a word goes only where it stands alone."""
    if len(value) >= 10:
        return text.replace(value, HIDDEN)
    return re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", HIDDEN, text)


_ASSIGNED = Lazy(r"""([A-Za-z_][\w-]*)["']?[ \t]*[=:][ \t]*["']?([^\s"'#,;]{4,})""")


def learn_from_text(redactor: Redactor, text: str) -> None:
    """Find `NAME=value` and `NAME: value` with a telling name anywhere in a text, for the lines
    that a diff shows.
    """
    for found in _ASSIGNED.finditer(text):
        if is_secret_name(found.group(1)):
            redactor.learn(found.group(2))
    for found in re.finditer(
        r"""(--?[\w-]*(?:key|token|secret|password)[\w-]*)["']?(?:\s*,\s*|\s*\n\s*-\s*|[\s=]+)["']?([^\s"',]+)""",
        text,
        re.I,
    ):
        if is_secret_flag(found.group(1)):
            redactor.learn(found.group(2))
    for found in re.finditer(r"""name:\s*["']?(\w+)["']?\s*\n\s*value:\s*["']?([^\s"'#]+)""", text):
        if is_secret_name(found.group(1)):
            redactor.learn(found.group(2))
