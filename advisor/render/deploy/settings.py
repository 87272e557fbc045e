"""What an operator changes in a file without editing it."""

import re
from collections.abc import Iterable

from advisor.domain.nouns import Advice, AdvisorError

_LABEL = r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?"
KEYS = {
    "image": (r"[\w./:@-]{1,300}", "a reference such as REPOSITORY@sha256:DIGEST"),
    "claim": (_LABEL, "the name of a claim that exists"),
    "namespace": (_LABEL, "the name of a namespace"),
    "monitor": (_LABEL, "the release label that your Prometheus operator looks for"),
    "host": (r"[\w.-]{1,253}", "an address of this machine, 0.0.0.0 for all"),
    "port": (r"[1-9]\d{0,4}", "a port"),
}


def read_settings(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`KEY=VALUE` words as pairs. Raises AdvisorError for another key or a value of no use."""
    pairs = [(key, value) for key, _, value in (word.partition("=") for word in words)]
    for key, value in pairs:
        if key not in KEYS:
            raise AdvisorError(f"--set takes {', '.join(KEYS)}, not '{key[:40]}'")
        pattern, meaning = KEYS[key]
        if not re.fullmatch(pattern, value, re.ASCII) or (key == "port" and int(value) > 65535):
            raise AdvisorError(f"--set {key}={value[:60]!a}: give {meaning}")
    return tuple(dict(pairs).items())


def setting(advice: Advice, key: str, usual: str = "") -> str:
    """What was set of an answer's file, else what is usual."""
    return dict(advice.settings).get(key, usual)
