"""Fuzz targets beside the readers: launches with hardware and load, fact files, machine files,
tables of rows, benchmark files, and the edge of every output.

    python tests/fuzz/fuzz_files.py --target facts --count 100000 --seed 1

The property of each: an answer or one AdvisorError of one visible line, in bounded time; no control
character, no formula and no secret in what is written. Failing inputs are kept under --keep.
"""

import csv
import io
import json
import os
import random
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests" / "fuzz"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import fuzz_readers  # noqa: E402
from fuzz_readers import SECRET, Target, mutate, visible  # noqa: E402

from advisor import engines  # noqa: E402
from advisor.advice.own_runs import machine as machines  # noqa: E402
from advisor.domain.printable import csv_cell, json_text, printable, printable_lines  # noqa: E402
from advisor.knowledge.build import check_file  # noqa: E402
from advisor.lint.report import Given  # noqa: E402
from advisor.prediction.predict_rows import predict_rows  # noqa: E402
from advisor.readers import read_bytes  # noqa: E402
from advisor.readers.results.document import parse  # noqa: E402
from advisor.readers.results.formats import read_document  # noqa: E402
from advisor.readers.secrets import Redactor, learn_from_text  # noqa: E402


class Facts:
    """`advisor hardware validate`, `advisor models validate`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "own.yaml"
        names = {"hardware": "hardware", "llms": "llms"}
        self.seeds = {
            table: [p.read_bytes() for p in sorted((ROOT / "knowledge" / name).glob("*.yaml"))]
            for table, name in names.items()
        }

    def make(self, chance: random.Random) -> bytes:
        self.table = chance.choice(list(self.seeds))
        return mutate(self.seeds[self.table], chance)

    def check(self, data: bytes) -> None:
        self.path.write_bytes(data)
        for file, field, reason in check_file(self.table, self.path):
            line = ": ".join(part for part in (file, field, reason) if part)
            assert reason and "Traceback" not in line
            visible(printable_lines(line), "\n\t")


class Machines:
    """The private machine file that `--machine` names."""

    seeds = (
        b"name: own\nhardware: gb10\ngpus: 1\nruns: []\n",
        b"name: own\nhardware: gb10\ngpus: 1\nruns:\n"
        b"- {model: qwen3.6-27b, quant: fp8, engine: vllm, method: mtp, k: 2, concurrency: "
        b"4}\n",
    )

    def __init__(self, folder: Path) -> None:
        os.environ["XDG_CONFIG_HOME"] = str(folder)
        self.path = machines.path_of("own")
        self.path.parent.mkdir(parents=True)

    def make(self, chance: random.Random) -> bytes:
        return mutate(self.seeds, chance)

    def check(self, data: bytes) -> None:
        self.path.write_bytes(data)
        machines.load("own")


class Rows:
    """`advisor predict --rows`."""

    seeds = (
        b"model,spec_method,k,hardware,concurrency,note\nqwen3.6-27b,mtp,2,gb10,4,a\n"
        b"qwen3.6-35b-a3b,mtp,3,h200,16,=1+1\n",
        b"total_params_b,spec_method,k,input_tokens,output_tokens\n27,mtp,2,1024,256\n"
        b"8,none,0,1,1\n",
    )

    def __init__(self, folder: Path) -> None:
        self.source, self.target = folder / "in.csv", folder / "out.csv"

    def make(self, chance: random.Random) -> bytes:
        return mutate(self.seeds, chance)

    def check(self, data: bytes) -> None:
        self.source.write_bytes(data)
        self.target.unlink(missing_ok=True)
        predict_rows(self.source, self.target)
        text = self.target.read_text(encoding="utf-8")
        visible(text)
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                assert cell.lstrip()[:1] not in ("=", "@"), f"a formula: {cell!r}"


class Results:
    """`advisor results`: benchmark files of every format."""

    def __init__(self, folder: Path) -> None:
        files = sorted(
            p for p in (ROOT / "tests" / "readers" / "results" / "files").rglob("*") if p.is_file()
        )
        self.seeds = [p.read_bytes() for p in files if p.stat().st_size < 200_000]
        self.names = [p.name for p in files]
        self.name = ""

    def make(self, chance: random.Random) -> bytes:
        self.name = chance.choice(self.names)
        return mutate(self.seeds, chance, 20_000)

    def check(self, data: bytes) -> None:
        from advisor.render.own_runs import runs_text

        visible(printable_lines(runs_text(read_document(parse(self.name, data)), 80)))


class Launches:
    """`advisor validate --hw --concurrency --ctx`: any options of an engine with any values."""

    VALUES = (
        *("", "0", "-1", "1", "2", "8", "64", "1e9", "1e308", "nan", "inf", "-inf", "0.9", "1.5"),
        *("1" + "0" * 8, "1" + "0" * 20, "9" * 400, "9" * 5000, "on", "off", "false", "None"),
        *("auto", "all", "128k", "128K", "{}", "[]", "1,2", "1,1,1,1", "a b", "${X}", "x" * 80),
        '{"method":"mtp","num_speculative_tokens":2}',
        '{"method":"mtp","num_speculative_tokens":10000000}',
        '{"method":"eagle3","model":"x","num_speculative_tokens":1e400}',
        '{"method":"ngram","num_speculative_tokens":-1,"prompt_lookup_max":0}',
        '{"num_speculative_tokens_per_batch_size":[[1,8,0],[9,-1,100000000000000000000]]}',
    )
    HEADS = (
        ("vllm", "vllm serve Qwen/Qwen3.6-35B-A3B-FP8"),
        ("vllm", "vllm serve openai/gpt-oss-120b"),
        ("sglang", "python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8"),
        ("llama-server", "llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf"),
    )
    GIVENS = (
        Given(hw="h100", concurrency=4, ctx=2048),
        Given(hw="gb10", gpus=2, concurrency=100_000, ctx=10_000_000, output_tokens=1),
        Given(hw="h200", gpus=1024, concurrency=1, ctx=1, workload="code"),
    )

    def __init__(self, folder: Path) -> None:
        # those that a plan reads count for as much as all others together
        self.given, self.names = self.GIVENS[0], {}
        for engine, _ in self.HEADS:
            adapter = engines.get(engine)
            plan = [*adapter.FIELDS, *(name for name in adapter.COUNTS if "." not in name)]
            self.names[engine] = (plan, adapter.catalogue.names())

    def make(self, chance: random.Random) -> bytes:
        self.given = chance.choice(self.GIVENS)
        engine, head = chance.choice(self.HEADS)
        words = [head]
        for _ in range(chance.randrange(1, 7)):
            name = chance.choice(chance.choice(self.names[engine]))
            words += [name, shlex.quote(chance.choice(self.VALUES))]
        if chance.random() < 0.6:
            option = {
                "vllm": "--speculative-config " + shlex.quote(chance.choice(self.VALUES[-5:])),
                "sglang": "--speculative-algorithm EAGLE",
                "llama-server": "--spec-type draft-mtp",
            }
            words.append(option[engine])
        return " ".join(words).encode()

    def check(self, data: bytes) -> None:
        fuzz_readers.judge(read_bytes(data, "a.sh"), self.given)


class Output:
    """The edge of every output: what is shown, written as JSON or as a cell, and the redactor."""

    def __init__(self, folder: Path) -> None:
        self.seeds = [data for _, data in fuzz_readers.corpus()]

    def make(self, chance: random.Random) -> bytes:
        return mutate(self.seeds, chance, 1_500)

    def check(self, data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        visible(printable(text), "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}")
        visible(printable_lines(text))
        written = json_text({"a": [text]})
        visible(written)
        visible(json.loads(written)["a"][0])
        assert csv_cell(text).lstrip()[:1] not in ("=", "@")
        redactor = Redactor()
        learn_from_text(redactor, text)
        assert SECRET not in redactor.clean(text + " " + SECRET), "a secret is shown"


TARGETS: dict[str, Callable[[Path], Target]] = {
    "launches": Launches, "facts": Facts, "machines": Machines, "rows": Rows, "results": Results,
    "output": Output,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(fuzz_readers.main(TARGETS))
