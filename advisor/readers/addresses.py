"""Addresses by which one part of a file calls another: the services of a compose file, the Services
of Kubernetes, and the clients of a server that the file starts. Each that leads nowhere is kept for
SD136.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from advisor.domain.patterns import lazy_re
from advisor.readers.images import is_official
from advisor.readers.syntax.mapped import HOLE
from advisor.readers.syntax.yamlnodes import scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from advisor.readers.engine_command import EngineCommand
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.mapped import Mapped
    from advisor.readers.syntax.yamlnodes import Node

DEFAULT_PORTS = {"vllm": "8000", "sglang": "30000", "llama-server": "8080", "ik_llama.cpp": "8080"}
HERE = ("localhost", "127.0.0.1", "0.0.0.0")
MAX_ADDRESSES = 200
_URL = lazy_re(r"https?://([A-Za-z0-9][\w.-]*)(?::(\d{1,5}))?(/[\w./-]*)?(?![\w.:{$\ue000-])")
# variables by which a program is told where an OpenAI-compatible server is
_CLIENT = lazy_re(
    r"(?:OPEN_?AI|LLM|VLLM|SGLANG|LLAMA|MODEL|INFERENCE|CHAT|COMPLETIONS?|EMBED\w*|RERANK\w*)"
    r"\w*(?:URLS?|BASE|HOST|ENDPOINT)$",
    re.I,
)
# of a page in the user's own browser, which reaches the host's ports
_OUTSIDE = lazy_re(r"PUBLIC|VITE_|REACT_APP|BROWSER|EXTERNAL|WEBUI_URL|ORIGIN|CALLBACK", re.I)
_OPENAI = lazy_re(r"OPEN_?AI\w*(?:URLS?|BASE)$", re.I)
_BASE = lazy_re(
    r"\bbase_url\s*=\s*f?([\"'])(https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::[^/\"'\s]{1,40})?)"
    r"/?\1"
)
_ASSIGNED = lazy_re(r"[ \t]*(?:(?:local|export|readonly|declare)[ \t]+)?base_url=[^,)]*$")
_ASKED = lazy_re(
    r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0):(\d{1,5})/(?:v1/(?:chat/completions|completions"
    r"|models|embeddings)|health)\b"
)
PREFIXED = ("vllm", "sglang")  # they answer below /v1 only


class Peer(NamedTuple):
    """What is reached by a name: the ports at which it answers (empty: not known), its engine."""

    ports: tuple[str, ...] = ()
    engine: str = ""


def port_of(found: EngineCommand) -> str:
    """The port on which an engine listens; "" where a variable says it."""
    port = DEFAULT_PORTS.get(found.engine, "")
    words = found.words
    for at, word in enumerate(words):
        if word.text in ("--port", "-port") and at + 1 < len(words):
            port = words[at + 1].text
        elif word.text.startswith("--port="):
            port = word.text[7:]
    item = found.env.get("LLAMA_ARG_PORT")
    if item is not None and item.value is not None and not any("--port" in w.text for w in words):
        port = item.value.text
    return port if port.isdigit() else ""


def check_urls(
    asked: Iterable[tuple[str, Mapped]],
    peers: dict[str, Peer],
    alone: bool,
    reading: Reading,
) -> None:
    """The addresses in the variables of one service; `alone` is whether no other names can be
    reached than those of the file.
    """
    for name, value in list(asked)[:MAX_ADDRESSES]:
        if "://" not in value.text or _OUTSIDE.search(name):
            continue
        for found in _URL.finditer(value.text):
            _check_url(name, value, found, peers, alone, reading)


def _check_url(
    name: str,
    value: Mapped,
    found: re.Match[str],
    peers: dict[str, Peer],
    alone: bool,
    reading: Reading,
) -> None:
    host, port, path = found[1], found[2] or "", found[3] or ""
    client = _CLIENT.search(name) is not None or path.startswith("/v1")
    short = host.partition(".")[0] if host.endswith((".svc", ".svc.cluster.local")) else host
    engines = {one: peer for one, peer in peers.items() if peer.engine}
    peer = peers.get(short)
    if peer is None:
        if not client or not engines or host in HERE or "." in host or not alone:
            return
        near = _near(host, list(engines))
        if near is not None:
            said = f"nothing in the file is called '{host}'; {near} is the server"
            _slip(value, found.span(1), said, near, reading)
        return
    if peer.ports and (port or "80") not in peer.ports:
        said = f"{host} answers on port {', '.join(peer.ports)}, not on {port or '80'}"
        span = found.span(2) if port else (found.end(1), found.end(1))
        _slip(value, span, said, peer.ports[0] if port else f":{peer.ports[0]}", reading)
    elif peer.engine in PREFIXED and path in ("", "/") and _OPENAI.search(name):
        end = found.start(3) if path else found.end()
        said = f"{name} lacks /v1, below which {peer.engine} answers"
        _slip(value, (end, found.end()), said, "/v1", reading)


def check_own_address(
    asked: Iterable[tuple[str, Mapped]],
    servers: Sequence[tuple[str, str, tuple[str, ...]]],
    reading: Reading,
) -> None:
    """A container that calls itself where it means a server beside it: `servers` are their names,
    their ports and the ports of the host at which they are published.
    """
    for name, value in list(asked)[:MAX_ADDRESSES]:
        if "://" not in value.text or _OUTSIDE.search(name):
            continue
        for found in _URL.finditer(value.text):
            path = found[3] or ""
            if found[1] not in HERE or not (_CLIENT.search(name) or path.startswith("/v1")):
                continue
            for server, port, published in servers:
                if found[2] and port and found[2] in (port, *published):
                    said = f"{found[1]} is the container itself: {server} is reached by its name"
                    place = found.start(1), found.end(2)
                    _slip(value, place, said, f"{server}:{port}", reading)
                    break


def _near(host: str, names: list[str]) -> str | None:
    from difflib import get_close_matches  # start-up: only for a name that is none of the file's

    near = get_close_matches(host, names, 1, 0.6)
    inside = [one for one in names if host in one or one in host]
    return near[0] if near else inside[0] if inside else names[0] if len(names) == 1 else None


def _slip(value: Mapped, span: tuple[int, int], said: str, text: str, reading: Reading) -> None:
    part = value.part(*span)
    place = part.span()
    if not len(part):  # something goes in
        before = value.part(span[0] - 1, span[0]).span()
        place = (before[1], before[1]) if before is not None else None
    at = place[0] if place else value.first()
    stops = "$" not in value.text  # else it is a default
    reading.slip(said, at, place[1] if place else None, text, stops)


def check_siblings(document: Node, services: Node, reading: Reading) -> None:
    """The addresses by which the services of a compose file call each other."""
    every = [(key.text, one) for key, one in services.entries() if one.kind == "map"]
    servers = {one.around.name: one for one in reading.found if one.around is not None}
    names = {one.text for _, service in every for one in _aliases(service)}
    networks = document.get("networks")
    alone = document.get("include") is None and not any(
        one.get("external") is not None for _, one in (networks.entries() if networks else [])
    )
    peers = dict.fromkeys(names, Peer())
    for name, service in every:
        found = servers.get(name)
        own = service.get("build") is not None and service.get("command", "entrypoint") is None
        port = port_of(found) if found is not None and not own else ""  # else its image says it
        peer = Peer((port,) if port else (), found.engine) if found is not None else Peer()
        peers |= dict.fromkeys((name, *(one.text for one in _aliases(service))), peer)
    listed = [(name, port_of(one), host_ports(one) or ()) for name, one in servers.items()]
    for name, service in every:
        mode = service.get("network_mode")
        if name in servers or mode is not None or service.get("extra_hosts", "links") is not None:
            continue
        asked = [
            (one, scalar(value, reading.source))
            for one, value in values_of(service.get("environment"))
            if "://" in value.text
        ]
        if asked:
            check_urls(asked, peers, alone, reading)
            check_own_address(asked, listed, reading)


def _aliases(service: Node) -> list[Node]:
    """Further names under which a service is reached."""
    found = [one for key in ("container_name", "hostname") if (one := service.get(key)) is not None]
    networks = service.get("networks")
    for _, network in networks.entries() if networks is not None else []:
        found += aliases.items if (aliases := network.get("aliases")) is not None else []
    return [one for one in found if one.kind == "scalar"]


# ---------------------------------------------------------------- what passes requests on


def check_proxy(found: EngineCommand, proxy: Mapped, line: Mapped, reading: Reading) -> None:
    """llama-swap's `proxy`: the address at which it asks the server; without one the port is its
    own choice, ${PORT}, which the command must take.
    """
    port, published = port_of(found), host_ports(found)
    if not port or published is None:
        return
    if not proxy.text:
        if "${PORT}" not in line.display():
            said = "the model has no proxy, and its cmd does not take ${PORT}"
            text = f"proxy: http://127.0.0.1:{port} below it, or --port ${{PORT}}"
            reading.slip(said, line.first(), text=text)
        return
    asked = _URL.match(proxy.text)
    if asked is None or asked[2] is None:
        return
    known = published if published and asked[1] in HERE else (port,)
    if asked[2] not in known:
        said = f"llama-swap asks port {asked[2]}, and the server answers on {known[0]}"
        _slip(proxy, asked.span(2), said, known[0], reading)


def check_task_port(number: Node | None, found: Sequence[EngineCommand], reading: Reading) -> None:
    """The port to which a launcher of tasks sends, where nothing else in the file has it."""
    if number is None or number.kind != "scalar" or len(found) != 1:
        return
    asked = re.fullmatch(r"(?:\d{1,5}:)?(\d{1,5})", number.text)
    port = port_of(found[0])
    if asked is None or not port or asked[1] == port:
        return
    if len(re.findall(rf"(?<!\d){asked[1]}(?!\d)", reading.source.text)) > 1:
        return  # another program's, or a tunnel's
    start = number.start + (0 if number.style is None else 1) + asked.start(1)
    written = reading.source.text.startswith(asked[1], start)
    said = f"requests go to port {asked[1]}, and the server answers on {port}"
    reading.slip(said, start, start + len(asked[1]) if written else None, port)


def check_tls(found: EngineCommand, reading: Reading) -> None:
    """A check of health by TLS with a server that has no certificate."""
    around = found.around
    if around is None or not around.secure or not is_official(around.image_text()):
        return
    words = [word.text for word in found.words]
    if any(one.startswith(("--ssl", "--config")) or HOLE.search(one) for one in words):
        return
    for probe, scheme in around.secure.items():
        said = f"the {probe} asks by HTTPS, and {found.engine} has no certificate: it answers HTTP"
        start, end = scheme.span() or (scheme.first(), None)
        line = reading.source.text.rfind("\n", 0, start)
        if re.fullmatch(r"\s*scheme:[ \t]*", reading.source.text[line:start]):
            reading.slip(said, line, end)  # HTTP is what it is without the line
        else:
            text = "HTTP" if scheme.text.isupper() else "http"
            reading.slip(said, start, end, text, stops=probe != "healthcheck")


# ---------------------------------------------------------------- clients of the server


def check_clients(reading: Reading) -> None:
    """Clients in the file of the one server that it starts: the address that they are given."""
    text, found = reading.source.text, reading.found
    if not found or "http" not in text:
        return
    for one in found:
        check_tls(one, reading)
    prefixed = all(one.engine in PREFIXED for one in found)
    for client in _BASE.finditer(text) if prefixed and "openai" in text.lower() else ():
        line = text[text.rfind("\n", 0, client.start()) + 1 : client.end() + 1]
        if _ASSIGNED.match(line):
            continue  # of a shell, which writes the path where it asks
        said = f"the client's base_url lacks /v1, below which {found[0].engine} answers"
        reading.slip(said, client.end(2), client.end() - 1, "/v1")
    if len(found) != 1:
        return
    one = found[0]
    port = port_of(one)
    published = host_ports(one) if one.around is not None else ()
    if not port or published is None:
        return
    known = {port, *published}
    for asked in _ASKED.finditer(text):
        if asked[1] not in known and _mention(text, asked[1]) is None:
            said = f"a client asks port {asked[1]}, and the server answers on {min(known)}"
            right = published[0] if published else port
            reading.slip(said, asked.start(1), asked.end(1), right, stops=False)


def _mention(text: str, port: str) -> re.Match[str] | None:
    """Whether the file speaks of the port elsewhere: a mapping, a tunnel, another program's."""
    return re.search(rf"(?<![\d.:/]){port}(?![\d.])|(?<![\w.])(?:[\d.]+:)?{port}:\d", text)


def host_ports(found: EngineCommand) -> tuple[str, ...] | None:
    """The ports of the host at which a container is published; None where a variable says it."""
    around = found.around
    if around is None:
        return ()
    return None if None in around.published else tuple(p for p in around.published if p)


def values_of(node: Node | None) -> list[tuple[str, Node]]:
    """Names and values of `environment`, as a mapping or a list of NAME=value."""
    if node is None:
        return []
    pairs = [(key.text, value) for key, value in node.entries() if value.kind == "scalar"]
    return pairs + [(one.text.partition("=")[0], one) for one in node.items if one.kind == "scalar"]
