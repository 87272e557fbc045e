"""Keeps secrets out of every output: one redactor a file, fed while reading. A secret is the value
of a telling name, or has a token's form; the forms cover detect-secrets', whose import takes longer
than most files.
"""

import re
from functools import lru_cache

from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import letters_apart

HIDDEN = "[redacted]"
MAX_LINES, MAX_LINE = 5_000, 10_000  # of a text that are searched for secrets


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words of a name, as A_B, a-b or aB divide them.
_SECRET_WORDS = _set(
    """
    token tokens secret secrets password passwords passwd passphrase passcode pass pwd pswd
    credential credentials cred creds bearer cookie cookies jwt pat apikey apikeys apitoken
    accesskey secretkey privatekey authkey authtoken webhook dsn auth authorization oauth sas hft
    htpasswd otp totp pin
    """
)
# X_KEY is one, but these keys are none; nor is what the words of the second line switch.
_OPEN_KEYS = _set(
    """
    public cache primary foreign partition sort hot label labels config map topology node affinity
    object kv k dict json yaml meta metadata group index row shard routing hash sampling state
    """
)
_SWITCHED = _set("allow cors use with require required enable disable has skip forward ignore")
# Words that say what a token is when it is none of access: --max-num-batched-tokens, EOS_TOKEN.
_COUNTED = _set(
    """
    pad eos bos mask stop max min num number per image audio video think thinking draft spec
    speculative batched batch prefill prompt output input completion context new total budget chunk
    chunked block page limit count rate special tool next cached first every graph guide mtp dummy
    cuda ids cache reserved decode extend
    """
)
# What follows a telling word in a name that holds no secret: a path, a switch, a count.
_ABOUT = _set(
    """
    file files path paths dir folder name names id ids type types mode url uri endpoint host port
    enabled enable disabled required expiry ttl length len size count limit limits parser method
    provider backend budget ratio
    """
)
_PINNED = _set("k memory cpu core numa")  # what is pinned to a place, and is no secret
_TAILS = ("password", "passphrase", "apikey")  # PGPASSWORD
_ADDRESS = _set("webhook dsn")  # here the address itself is the secret
_PARTS = lazy_re(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Forms of tokens: what stands in every text that holds one, and the pattern, tried only then. No
# pattern begins in the middle of a word and runs to its end, which would take quadratic time.
_PATTERNS = {
    "hf_": r"hf_[A-Za-z0-9]{8,}",
    "api_org_": r"api_org_[A-Za-z0-9]{16,}",
    "sk-": r"sk-[A-Za-z0-9_-]{12,}",
    "gh|GR13489": r"(?:gh[pousr]_|github_pat_)\w{16,}|GR1348941[\w-]{16,}",
    "gl": r"(?:glpat|gldt|glft|glsoat|glrt|glcbt|glimt|glptt|glagent|gloas)-[\w-]{16,}",
    "xox": r"xox[abeoprs]-[\w-]{4,}",
    "A3T|ABIA|ACCA|AKIA|ASIA": r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{12,}",
    "AIza|ya29.": r"AIza[\w-]{30,}|ya29\.[\w-]{20,}",
    "nvapi-|xai-": r"nvapi-[\w-]{16,}|xai-[A-Za-z0-9]{20,}",
    "pypi-Ag": r"pypi-Ag[\w-]{20,}",
    "r8_|gsk_|npm_": r"(?:r8_|gsk_|npm_)[A-Za-z0-9]{20,}",
    "dckr_pat_|dop_v1_|wandb_v1_": r"(?:dckr_pat|dop_v1|wandb_v1)_[\w-]{16,}",
    "_live_|_test_": r"[srp]k_(?:live|test)_[0-9a-zA-Z]{16,}",
    "sq0csp": r"sq0csp-[\w\\-]{20,}",
    "SG.|AKC": r"SG\.[\w-]{16,}\.[\w-]{16,}|AKC[a-zA-Z0-9]{10,}",
    "eyJ": r"(?<![\w-])eyJ[\w=-]*\.[\w=-]+(?:\.[\w.+/=-]*)?",
    "earer |EARER ": r"(?:(?<=[Bb]earer )|(?<=BEARER ))[\w.~+/=-]{6,}",
    "asic ": r"(?<=[Bb]asic )[\w+/-]{8,}={0,2}",
    # a user's password in an address; the addresses that are secrets themselves
    "://": r"(?<=://)[^/\s:@?#\"'$]{0,200}:[^/\s@\"'$]{1,200}(?=@)"
    r"|(?<=://)[^/\s:@?#\"'$]{12,200}(?=@)",
    "hook": r"https?://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks"
    r"|[\w.-]{0,80}webhook\.office\.com)/[\w./-]+",
    "Key=|_authToken=": r"(?:(?<=AccountKey=)|(?<=SharedAccessKey=)|(?<=_authToken=))"
    r"[\w+/=-]{8,}",
    "sig=|token=|key=": r"(?:(?<=[?&]sig=)|(?<=[?&]token=)|(?<=[?&]key=))[\w%.+/=-]{6,}",
    "PRIVATE KEY": r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,20}-----"
    r"(?:[^-]*-----END [A-Z0-9 ]{0,40}-----)?",
}
_FORMS = [(marks.split("|"), lazy_re(form)) for marks, form in _PATTERNS.items()]
_RUN = lazy_re(r"(?<![\w-])[\w-]{27}")  # the next ones have no mark, but are long
_UNMARKED = lazy_re(
    r"\b[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}|\b\d{8,10}:[0-9A-Za-z_-]{35}"
    r"|\b(?:AC|SK)[a-z0-9]{32}|\b[0-9a-z]{32}-us[0-9]{1,2}\b"
)
_PLACEHOLDER = lazy_re(
    r"^(|\$.*|[xX*.]+|<.*>|none|null|nil|true|false|yes|no|on|off|auto|0|1|-?\d{1,3}|empty"
    r"|changeme|change[-_]me|your.*|dummy|vllm|sglang|llama[-.](?:cpp|server)"
    r"|bearer|basic|token|\{\{.*|%\w+%|%[a-zA-Z]|\[redacted\])$",
    re.I,
)
_COUNT = lazy_re(r"^[\d.,_]{1,7}[kKmMgGs]?$")  # TOKENS=32768
# PWD=/srv/models, a key in a file
_PATH = lazy_re(r"^(?:[.~]{0,2}/|[A-Za-z]:\\)[\w.-]+(?:[/\\][\w.-]*)*$")
_HEADER = lazy_re(  # from the beginning of a word: each later letter would only be tried again
    r"""(?<![\w-])((?:x-)?[\w-]*(?:api-?key|auth[\w-]*|token|secret|cookie|password)[\w-]*)"""
    r"""["']?[ \t]*:[ \t]*["']?"""
    r"""(?:(?:bearer|basic|token)[ \t]+)?([^\s"',;\\]{4,})""",
    re.I,
)

# Words that are meant where one is written with a slip: long enough that no other word is near.
_MEANT = _set("token secret password passphrase credential bearer apikey key")
_SLIP_FROM = 5  # letters


def _telling_word(word: str) -> str:
    """The telling word of which `word` is a slip (KEYY, TOKNE, SECRT), else the word itself."""
    if word in _SECRET_WORDS or word in _COUNTED:
        return word
    single = re.sub(r"(.)\1+", r"\1", word)
    for meant in _MEANT:
        if single == re.sub(r"(.)\1+", r"\1", meant) or (
            len(meant) >= _SLIP_FROM
            and word[0] == meant[0]  # one letter is missing, added or beside its place
            and (len(word) != len(meant) or sorted(word) == sorted(meant))
            and letters_apart(word, meant, 1) == 1
        ):
            return meant
    return word


@lru_cache(maxsize=4096)  # the same few names stand in every file
def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name holds a secret."""
    words = [_telling_word(part.lower()) for part in _PARTS.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    if not words:
        return False
    if words[-1] in _ABOUT:  # SLACK_WEBHOOK_URL is one, TOKEN_FILE is none
        return words[-1] in ("url", "uri") and bool(_ADDRESS & set(words))
    last, before = words[-1], words[:-1]
    if before and before[-1] in _SWITCHED:
        return False
    if last in ("key", "keys"):
        return bool(before) and before[-1] not in _OPEN_KEYS
    if last in ("token", "tokens"):
        return not any(word in _COUNTED for word in before)
    if last == "pin":
        return bool(before) and before[-1] not in _PINNED
    return last.endswith(_TAILS) or bool({last, "".join(words[-2:])} & _SECRET_WORDS)


def is_secret_flag(name: str) -> bool:
    """Whether an option of this name takes a secret."""
    return name.startswith("-") and name.lower() not in _SHORT_FLAGS and is_secret_name(name)


_SHORT_FLAGS = frozenset(("-pat", "-pin", "-sas", "-pass"))  # of other programs, such as -p -a -t


class Redactor:
    """The secrets of what was read; `clean` takes them out of what is to be shown."""

    def __init__(self) -> None:
        self.values: set[str] = set()

    def learn(self, value: str) -> None:
        """Remember a secret value (placeholders and references to variables are none)."""
        value = value.strip().strip("\"'")
        scheme, _, rest = value.partition(" ")
        if rest and scheme.lower() in ("bearer", "basic", "token"):
            value = rest.strip()
        plain = _PLACEHOLDER.match(value) or _COUNT.match(value) or _PATH.match(value)
        if len(value) >= 4 and not plain:
            self.values.add(value)

    def clean(self, text: str, words: bool = True) -> str:
        """The text without secrets; without `words` plain words stay, met by chance."""
        for value in sorted(self.values, key=len, reverse=True):
            if value in text and (words or not value.isalpha()):
                text = _replace(text, value)
        return _without_forms(text)


@lru_cache(maxsize=1024)
def _without_forms(text: str) -> str:
    """The text without what is a secret by its form. A rule says much the same of every file."""
    for marks, form in _FORMS:
        if any(mark in text for mark in marks):  # most texts hold none
            text = form.sub(HIDDEN, text)
    return _UNMARKED.sub(HIDDEN, text) if _RUN.search(text) else text


def _replace(text: str, value: str) -> str:
    """A short secret that is also a word goes only where it stands alone."""
    if len(value) >= 10:
        return text.replace(value, HIDDEN)
    return re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", HIDDEN, text)


_ASSIGNED = lazy_re(
    r"""(?<![A-Za-z_])([A-Za-z_][\w-]*)["']?[ \t]*[=:][ \t]*["']?([^\s"'#,;]{4,})"""
)
_TELLING = _set(
    "token tkn secret passw passp passc pass= pass: pwd pswd key cred auth bearer cookie jwt pat= "
    "pat: webhook dsn sas= sas: hft otp pin= pin:"
)
_PAIRED = lazy_re(
    r"""(?<![\w-])(--?[A-Za-z][\w-]*)["']?(?:\s*,\s*|\s*\n\s*-\s*|[\s=]+)["']?([^\s"',]{4,})"""
)
_NAMED = lazy_re(r"""name:\s*["']?(\w+)["']?\s*\n\s*value:\s*["']?([^\s"'#]+)""")


def learn_from_text(redactor: Redactor, text: str) -> None:
    """Find `NAME=value` with a telling name anywhere, for the lines of a diff."""
    lines = text.split("\n")
    for number in _telling_lines(text.lower())[:MAX_LINES]:  # of YAML with its value on the next
        _learn(redactor, "\n".join(lines[number : number + 2])[:MAX_LINE], text)


def _telling_lines(low: str) -> list[int]:
    """The lines of a text in lower case, from 0, that hold a telling word."""
    found: set[int] = set()
    for word in _TELLING:
        line, counted, at = 0, 0, low.find(word)
        while at >= 0:
            line += low.count("\n", counted, at)
            counted = at
            found.add(line)
            end = low.find("\n", at)
            at = low.find(word, end) if end >= 0 else -1
    return sorted(found)


def _learn(redactor: Redactor, text: str, whole: str) -> None:
    for pattern, judge in (
        (_ASSIGNED, is_secret_name),
        (_PAIRED, is_secret_flag),
        (_NAMED, is_secret_name),
        (_HEADER, is_secret_name),
    ):
        for found in pattern.finditer(text):
            name = found.group(1)
            loose = pattern is _ASSIGNED or (
                pattern is _HEADER and "-" not in name and name.lower() != "authorization"
            )
            if judge(name) and not (loose and _is_prose(found, text)):
                redactor.learn(found.group(2))
                _learn_parts(redactor, found.group(2), whole)


_VARIABLE = lazy_re(r"\$\{?([A-Za-z_]\w{0,60})")


def _learn_parts(redactor: Redactor, value: str, text: str, depth: int = 3) -> None:
    """Learn the variables that a secret is put together of: `A=half` of `--api-key $A$B`."""
    names = set(_VARIABLE.findall(value[:200])) if depth else set()
    for name, assigned in _assignments(text) if names else ():
        if name in names:
            redactor.learn(assigned)
            _learn_parts(redactor, assigned, text, depth - 1)


@lru_cache(maxsize=1)  # of the file that is read
def _assignments(text: str) -> list[tuple[str, str]]:
    return _ASSIGNED.findall(text)


_WORD = lazy_re(r"[A-Za-z]+[.)]?")
_LEAD = lazy_re(r"[ \t]*(?:-[ \t]+)?[\"']?")


def _is_prose(found: re.Match[str], text: str) -> bool:
    """Whether a plain word after a telling one is prose or a program: "pass: more", `auth=auth`."""
    name, value = found.groups()
    before = text[found.start(2) - 1]
    if before in "\"'" or _WORD.fullmatch(value) is None:
        return False
    if before == "=":
        return bool(value.lower() == name.lower())
    line = text.rfind("\n", 0, found.start()) + 1
    ends = text[found.end() :].partition("\n")[0].lstrip()
    keyed = ":" in text[found.end(1) : found.start(2)]
    begins = _LEAD.fullmatch(text, line, found.start()) is not None
    return not (keyed and begins and (not ends or ends[0] == "#"))
