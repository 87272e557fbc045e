"""A command that starts a server, as the readers find it, with what stands around it."""

import re

from advisor.domain.launches import CutOff
from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple, Record, field
from advisor.engines.images import fork_of_image
from advisor.readers.syntax.mapped import Mapped

_PUBLISHED = lazy_re(r"(?:^|:)(\d{1,5})(?:/tcp)?$")
_ADDRESS = lazy_re(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::(\d{1,5}))?")
_MEMORY = lazy_re(r"(?i)(\d{1,4})g(?:i?b)?")
_EXTRA = lazy_re(r"(?i)\b(?:instinct|oam|mega)\b|!$")
_IK_LLAMA = lazy_re(r"ik[-_]?llama")
# llama-server options of ik_llama.cpp that mainline never had
_IK_OPTIONS = """
-mtp --multi-token-prediction -fmoe --fused-moe -rtr --run-time-repack -ger -mqkv --merge-qkv -khad
-vhad -amb -mla --mla-use --k-cache-hadamard --v-cache-hadamard --spec-stage --recurrent-ckpt-mode
--defer-experts
"""
_IK_ONLY = frozenset(_IK_OPTIONS.split())


class EnvItem(NamedTuple):
    """A variable's value (None: from outside) and where its name stands."""

    value: Mapped | None
    at: int = -1


Env = dict[str, EnvItem]


class Surroundings(Record):
    """A command's image (`tag`: a field of its own) and its container's settings."""

    image: Mapped | None = None
    tag: Mapped | None = None
    kind: str = ""
    name: str = ""
    shm_bytes: int | None = None
    ipc_host: bool | None = None
    shm_volume: bool | None = None
    gpus: str | None = None
    gpu_kind: str = ""  # the id of the hardware that is named beside the command
    startup_budget_s: float | None = None
    budget_probe: str = ""
    host: bool = False  # the container uses the host's network
    # of the container, and the probe that asks there
    ports: list[tuple[Mapped, str]] = field(default_factory=list)
    chart: str = ""
    complete: bool = True  # the file says all of the container
    env_elsewhere: bool = False  # a part of its environment stands in another file
    labels: dict[str, str] = field(default_factory=dict)  # of a pod
    port_names: dict[str, Mapped] = field(default_factory=dict)

    def publish(self, port: Mapped) -> None:
        """The container's side of `8000:8000`, `127.0.0.1:8000:8000/tcp`; a bare `8000` is both."""
        number = _PUBLISHED.search(port.text)
        if number is not None:
            self.ports.append((port.part(*number.span(1)), ""))

    def ask(self, text: Mapped, probe: str) -> None:
        """The port of this machine that a check of health calls."""
        for address in _ADDRESS.finditer(text.text):
            if address[1] is not None:
                self.ports.append((text.part(*address.span(1)), probe))

    def image_text(self) -> str:
        """Return the image with its tag, "" where there is no image."""
        if self.image is None:
            return ""
        text = self.image.display()
        return f"{text}:{self.tag.display()}" if self.tag is not None and self.tag.text else text


class EngineCommand(Record):
    """A command that starts an engine, as words, or as `pairs` of keys whose kind is `origin`."""

    engine: str
    words: list[Mapped]
    env: Env
    at: int
    form: str = "command"
    around: Surroundings | None = None
    fork: str | None = None
    pairs: list[tuple[Mapped, Mapped | None]] = field(default_factory=list)
    origin: str = "cli"
    # words that the program takes for arguments, and has none
    strays: list[Mapped] = field(default_factory=list)
    open_end: bool = False  # what is not read may add options
    background: bool = False  # a script goes on while it runs (&)
    said: str | CutOff | None = None  # what its reader notes of this launch alone


def is_ik(found: EngineCommand) -> bool:
    """Whether the image says so, or the command has options of ik_llama.cpp alone."""
    image = found.around.image_text() if found.around is not None else ""
    own = any(word.text in _IK_ONLY for word in found.words)
    return bool(_IK_LLAMA.search(image.lower())) or (own and fork_of_image(image) is None)


def key_of(found: EngineCommand) -> tuple[object, ...]:
    """Return what makes two findings of the same command equal."""
    image = found.around.image if found.around is not None else None
    return (
        found.engine,
        found.at,
        image and image.first(),  # two services may share a command
        tuple(word.text for word in found.words),
        tuple(key.text for key, _ in found.pairs),
    )


def size_bytes(text: str) -> int | None:
    """`64gb`, `16Gi`, `8589934592`, `32g` in bytes; None if it is not a size."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " ")) if found else None


def gpu_kind(text: str) -> str:
    """The known hardware that a word such as `H100:8` or `nvidia-l4` names, else ""."""
    from advisor.knowledge.detect import match  # start-up: only where a file names its GPUs

    name, *parts = text.split(":")
    if not re.search(r"[A-Za-z].*\d", name) or len(text) > 80:  # "blackwell" is no kind
        return ""
    words = " ".join(_EXTRA.sub(" ", name.replace("-", " ").replace("_", " ")).split())
    sizes = [float(size[1]) for part in parts if (size := _MEMORY.fullmatch(part))]
    hardware = match(words, sizes[0] if sizes else None)
    return hardware.id if hardware is not None and hardware.id != "unknown" else ""
