"""Texts of a file that a tool refuses, and places of it that must agree, by the tables of
knowledge/rules/forms.json: what is odd is noted for SD136 with what should stand there.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from advisor.domain.nouns import Launch
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import nearest_word
from advisor.engines.images import is_official
from advisor.engines.traits import traits
from advisor.readers.form_types import read_table
from advisor.readers.reading import Reading

MAX_MATCHES, MAX_TEXT = 200, 60_000  # of one pattern, and of a file
_URL = r"https?://([\w.-]{1,200}):(\d{1,5})(/[\w./-]*)?"
_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0")
_CLIENT = lazy_re(r"OPENAI_\w*BASE\w*[\"']?\s*[:=]\s*[\"']?\Z")
# folders of a container that hold something else than its image: of the host, and its own
_FOLDER = (
    r"(?:(?<![^\s\"':,=])([^\s\"':,=]{0,200}):"
    r"|(?:mountPath: |target[=:] ?|dst=|COPY [^\n\[]{1,200} )[\"']?)"
    r"(/(?!/)[\w./-]+)(?=(?::[\w,]+)?[\"',\s])"
)
_FILE = (
    r"(?:(?:--model(?:-path)?|--speculative-draft-model-path|-md?|--mmproj|HF_HOME|LLAMA_ARG_MODEL)"
    r"[\"']?[=:,\s]+[\"']?|serve\s+|\\?\"model\\?\":\s*\\?\")(/[\w./-]+)"
)
_OWN = lazy_re(r"/(?:vllm-workspace|sgl-workspace|app|tmp)\b")  # of the images


def relate(launches: Sequence[Launch], reading: Reading) -> None:
    """Note what is odd in the text of a file with these launches."""
    if launches:
        _check_texts(reading)
    if launches and launches[0].form != "document":
        _check_pairs(reading)
        _check_ports(launches, reading)
        if all(
            (box := one.container) and box.complete and is_official(box.image or "")
            for one in launches
        ):
            _check_folders(reading)


def list_matches(pattern: str, text: str) -> Iterator[re.Match[str]]:
    """The first matches that no comment holds."""
    for found in islice(re.finditer(pattern, text, re.M), MAX_MATCHES):
        if "#" not in text[text.rfind("\n", 0, found.start()) + 1 : found.start()]:
            yield found


def _check_texts(reading: Reading) -> None:
    """What the tool or the engine refuses wherever it stands."""
    text = reading.source.text[:MAX_TEXT]
    for row in read_table("forms")["refused"]["value"]:
        of_form = row["mark"] in text and re.fullmatch(row.get("forms", ".*"), reading.form)
        without = of_form and not re.search(row.get("unless", "(?!)"), text)
        if without and re.search(row.get("beside", ""), text, re.M):
            for at, found in ((one.lastindex or 0, one) for one in list_matches(row["text"], text)):
                said, meant = found.expand(row["said"]), found.expand(row["meant"])
                reading.slip(
                    said, *found.span(at), meant, row.get("stops", True), sources=row["sources"]
                )


def _check_pairs(reading: Reading) -> None:
    """Names that one place of the file gives, and another asks for: nobody asks for it there."""
    text = reading.source.text[:MAX_TEXT]
    for row in (one for one in read_table("forms")["agree"]["value"] if one["mark"] in text):
        given = {one[one.lastindex or 0] for one in list_matches(row["given"], text)}
        asked = [
            (one[at], one.span(at))
            for one in list_matches(row["asked"], text)
            if (at := one.lastindex)
        ]
        idle = given.difference(name for name, _ in asked)
        for name, place in asked if idle else ():
            if name not in given:
                near = nearest_word(name, idle, "name") or min(idle)
                reading.slip(row["said"].format(name), *place, near, False, (), row["sources"])


def _check_ports(launches: Sequence[Launch], reading: Reading) -> None:
    """Addresses of the file's servers with a port at which none of them answers."""
    ports = {
        one.container.name if one.container else "": given.value or "$"
        if (given := one.flag("--port")) is not None
        else str(traits(one.engine).default_port)
        for one in launches
    }
    text, (name, first) = reading.source.text[:MAX_TEXT], next(iter(ports.items()))
    for url in list_matches(_URL, text):
        local, lone = url[1] in _LOCAL, len(re.findall(rf"(?<![\d.]){url[2]}\b", text)) == 1
        port = ports.get(url[1], first if len(ports) == 1 and local else "$")
        public = re.search(rf"\b(\d+):{port}\b", text) if local and port.isdigit() else None
        client = local and reading.form == "compose" and "network_mode" not in text
        if client and _CLIENT.search(text, max(url.start() - 80, 0), url.start()):
            said = f"{url[1]} is the client's own container: the server is {name}"
            reading.slip(said, url.start(1), url.end(2), f"{name}:{port}", stops=False)
        elif (
            port.isdigit()
            and port != url[2]
            and (
                not local or (lone and re.match(r"/(?:health|v1|metrics|generate)\b", url[3] or ""))
            )
        ):
            said = f"nothing of the file answers at {url[1]}:{url[2]}: the server's port is {port}"
            reading.slip(said, *url.span(2), public[1] if public else port, stops=False)


def _under(path: str, folders: Iterator[str] | Sequence[str]) -> str | None:
    return next((one for one in folders if path == one or path.startswith(f"{one}/")), None)


def _check_folders(reading: Reading) -> None:
    """Files that options name in no folder of a container, whose image holds none of them."""
    text, form = reading.source.text[:MAX_TEXT], reading.form
    folders = {one[2].rstrip("/"): one for one in list_matches(_FOLDER, text)}
    files = [
        one
        for one in list_matches(_FILE, text)
        if not _OWN.match(one[1]) and (form != "dockerfile" or one[0][:2] != "HF")
    ]
    used = [folder for one in files if (folder := _under(one[1], [*folders]))]
    idle = [one for one in folders if one not in used and not re.match(r"/(?:dev|etc|var)\b", one)]
    odd = next((one for one in files if folders and not _under(one[1], [*folders])), None)
    if odd is None or "extends" in text or "<<:" in text:
        return
    path, said = odd[1], f"no folder of the container holds {odd[1]}"
    sources = {one[1]: folder for folder, one in folders.items() if one[1]}
    host, cache = _under(path, [*sources]), odd[0].startswith("HF")
    if cache and not (idle and re.search(r"(?i)\bhf|hugging|cache", folders[idle[0]][0])):
        return
    stops = form != "dockerfile" and (not cache or "HF_HUB_OFFLINE" in text)
    if len(idle) == 1 and host is None and (not cache or idle[0].startswith("/root/")):
        at, parts = folders[idle[0]].start(2), path.split("/")[: idle[0].count("/") + 1]
        reading.slip(said, at, at + len(idle[0]), "/".join(parts), stops)
    elif cache:
        reading.slip(said, *odd.span(1), idle[0], stops)
    elif host is not None or used:
        meant = sources[host] + path[len(host) :] if host else used[0] + path[path.find("/", 1) :]
        reading.slip(said, *odd.span(1), meant, stops)
