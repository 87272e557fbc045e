"""A command that starts a server, as the readers find it, with what stands around it."""

from __future__ import annotations

import re
from typing import NamedTuple

from advisor.domain.patterns import lazy_re
from advisor.readers.images import fork_of_image
from advisor.readers.syntax.mapped import HOLE, Mapped

_PUBLISHED = lazy_re(r"(?:^|:)(\d{1,5})(?:/tcp)?$")
_HOST_PORT = lazy_re(r"(?:^|:)(\d{1,5}):\d{1,5}(?:/tcp)?$")
_TARGET = lazy_re(r"(?:dst|target|destination)=([^,]+)")
_COLON = lazy_re(":(?=[/~$\ue000])")
_ADDRESS = lazy_re(
    r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::(\d{1,5}))?(/[\w./-]*)?"
)
_IK_LLAMA = lazy_re(r"ik[-_]?llama")
# llama-server options of ik_llama.cpp that mainline never had
_IK_OPTIONS = """
-mtp --multi-token-prediction -fmoe --fused-moe -rtr --run-time-repack -ger -mqkv --merge-qkv -khad
-vhad -amb -mla --mla-use --k-cache-hadamard --v-cache-hadamard --spec-stage --recurrent-ckpt-mode
--defer-experts
"""
_IK_ONLY = frozenset(_IK_OPTIONS.split())


class EnvItem(NamedTuple):
    """One variable of a process: its value (None: passed through from outside) and where its name
    stands.
    """

    value: Mapped | None
    at: int = -1


Env = dict[str, EnvItem]


class Surroundings:
    """What stands around a command: the image (`tag` where that is a field of its own) and its
    container's settings.
    """

    def __init__(
        self, image: Mapped | None = None, tag: Mapped | None = None, kind: str = "", name: str = ""
    ) -> None:
        self.image, self.tag, self.kind, self.name = image, tag, kind, name
        self.shm_bytes: int | None = None
        self.ipc_host: bool | None = None
        self.shm_volume: bool | None = None
        self.gpus: str | None = None
        self.asked: list[Mapped] = []  # the number or the list of the GPUs, where it stands
        self.runtime: str | None = None
        self.paths: list[str] = []  # devices of the host, by path, CDI name or resource
        self.privileged = False
        self.whole = False  # whether the file says all of the devices
        self.request: tuple[int, str] = (-1, "")  # where GPUs could be asked for, and how
        self.startup_budget_s: float | None = None
        self.budget_probe = ""
        self.rollout_surge: bool | None = None
        self.rollout_default = False
        self.host = False  # the container uses the host's network
        self.headers: set[str] = set()  # probes that send a header
        self.secure: dict[str, Mapped] = {}  # probes by TLS, and where they say so
        # of the container; the probe that asks there, and for what
        self.ports: list[tuple[Mapped, str, Mapped | None]] = []
        self.published: list[str | None] = []  # ports of the host; None: a variable's
        self.user: str | None = None
        self.chart = ""
        self.binds: list[tuple[str, str]] = []  # source and mode of each mount
        self.mounts: list[Mapped] | None = []  # None where not all are known
        self.labels: dict[str, str] = {}  # of a pod
        self.service_links = True  # of Kubernetes: a Service's address in the environment
        self.port_names: dict[str, Mapped] = {}

    def publish(self, said: Mapped) -> None:
        """The container's side of `8000:8000`, `127.0.0.1:8000:8000/tcp`; a bare `8000` is both."""
        found = _PUBLISHED.search(said.text)
        if found is not None:
            self.ports.append((said.part(*found.span(1)), "", None))
        host = _HOST_PORT.search(said.text)
        self.published.append(host[1] if host else None if said.has_hole else "")

    def mount(self, said: Mapped) -> None:
        """The container's side of `./models:/models:ro`; `type=bind,src=.,dst=/models` too."""
        if self.mounts is None:
            return
        if "=" in said.text and (found := _TARGET.search(said.text)):
            self.mounts.append(said.part(*found.span(1)))
            self.binds.append(("", "ro" if re.search(r"\b(?:ro|readonly)\b", said.text) else ""))
            return
        if said.has_hole and HOLE.sub("", said.text).strip(":") == "":
            self.mounts = None
            return
        target, colon = said, _COLON.search(said.text)
        source = mode = ""
        if colon is not None:
            rest = said.part(colon.end(), len(said))
            end = rest.text.find(":")
            source, mode = said.text[: colon.start()], rest.text[end + 1 :] if end >= 0 else ""
            target = rest.part(0, end) if end >= 0 else rest
        self.mounts.append(target)
        self.binds.append((source, mode))

    def ask(self, text: Mapped, probe: str) -> None:
        """The address of this machine that a check of health calls."""
        if "Authorization" in text.text or " -H" in text.text:
            self.headers.add(probe)
        for found in _ADDRESS.finditer(text.text):
            if found[1] is None:
                continue
            if found[0].startswith("https"):
                self.secure[probe] = text.part(found.start(), found.start() + len("https"))
            path = text.part(*found.span(2)) if found[2] else None
            self.ports.append((text.part(*found.span(1)), probe, path))

    def image_text(self) -> str:
        """Return the image with its tag, "" where there is no image."""
        if self.image is None:
            return ""
        text = self.image.display()
        return f"{text}:{self.tag.display()}" if self.tag is not None and self.tag.text else text


class EngineCommand:
    """A command that starts an engine: the words after the program, and what surrounds it.

    `pairs` are keys and values, where the form has no words; `origin` says which kind of keys they
    are.
    """

    def __init__(
        self,
        engine: str,
        words: list[Mapped],
        env: Env,
        at: int,
        form: str = "command",
        around: Surroundings | None = None,
        *,
        fork: str | None = None,
        pairs: list[tuple[Mapped, Mapped | None]] | None = None,
        origin: str = "cli",
    ) -> None:
        self.engine, self.words, self.env, self.at, self.form, self.around = (
            engine,
            words,
            env,
            at,
            form,
            around,
        )
        self.fork, self.pairs, self.origin = fork, pairs or [], origin
        self.strays: list[Mapped] = []  # words that the program takes for arguments, and has none
        self.said = ""  # what its reader has to say of this launch alone


def is_ik(found: EngineCommand) -> bool:
    """Whether the image says so, or it is no other fork's and the command has options that only
    ik_llama.cpp knows.
    """
    image = found.around.image_text() if found.around is not None else ""
    if _IK_LLAMA.search(image.lower()):
        return True
    if not any(word.text in _IK_ONLY for word in found.words):
        return False
    return fork_of_image(image) is None


def key_of(found: EngineCommand) -> tuple[object, ...]:
    """Return what makes two findings of the same command equal."""
    return (
        found.engine,
        found.at,
        tuple(word.text for word in found.words),
        tuple(key.text for key, _ in found.pairs),
    )


def size_bytes(text: str) -> int | None:
    """`64gb`, `16Gi`, `8589934592`, `32g` in bytes; None if it is not a size."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    if not found:
        return None
    return int(float(found.group(1)) * 1024 ** " kmgt".index(found.group(2) or " "))
