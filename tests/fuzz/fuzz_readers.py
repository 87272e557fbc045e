"""Fuzz target of the readers: whatever the input, a reading or one AdvisorError, in bounded time,
without a secret.

    python tests/fuzz/fuzz_readers.py --count 1000000  # own mutation loop over the corpus, seeded

Each input is a corpus file (or a seed of a form that the corpus lacks) after a few mutations:
slices cut, doubled, swapped and spliced with other files, bytes flipped, words of a dictionary put
in. Every 50th reading is also judged by all rules, fixed and rendered. Prints the inputs done and
each distinct failure; failing inputs are kept under --keep.
"""

import argparse
import random
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from advisor.domain.nouns import AdvisorError  # noqa: E402
from advisor.lint.report import Given  # noqa: E402
from advisor.readers import FileRead, read_bytes  # noqa: E402

SECRET = "hf_FuzzSecretFuzzSecretFuzz"
SLOW_S = 3.0
# with hardware and load, so that the bill, the estimate and the recommendation are asked as well
GIVEN = Given(hw="h100", concurrency=4, ctx=2048)
NAMES = ("-", "a.sh", "a.yaml", "a.service", "a.container", "a.ini", "a.cmd", "a.ps1", "a.py",
         "a.env", "Dockerfile", "Makefile", "justfile", "a.md", "a.json")  # fmt: skip
WORDS = [word.encode("utf-8", "surrogatepass") for word in (
    "'{{", "}}'", "{'a': {'b', {}}}", "${A:-b}", "${A", "$(", "$((", "`", "$$", '"', "'", "\\\n",
    "\\", "|", "&&", ";", "#", "{", "}", "[", "]", ": ", "- ", "\n  ", "\t", "&a ", "*a",
    "<<: *a\n", "!!python/object:os.system ", "|\n", ">-\n", "--speculative-config ",
    "--tensor-parallel-size 0 ", "--data-parallel-size -1 ", "--gpu-memory-utilization nan ",
    "--max-num-seqs 1" + "0" * 20 + " ", '{"method":"mtp","num_speculative_tokens":3}', "--", "-",
    "=", "vllm serve ", "llama-server ", "python3 -m sglang.launch_server ", "docker run ",
    "bash -c '", "exec ", "if [ ", " ]; then\n", "fi\n", "else\n", "for i in 1 2; do\n", "done\n",
    "case $1 in\n", "esac\n", "while true; do\n", "f() {\n", "}\n", "eval ", "cat <<EOF\n", "EOF\n",
    "export ", "A=(", "A+=(", "services:\n", "command:\n", "image: vllm/vllm-openai:v0.25.1\n",
    "environment:\n", "apiVersion: v1\nkind: Pod\n", "[*]\n", "[Service]\nExecStart=",
    "[Container]\nImage=", "models:\n  a:\n    cmd: ", "macros:\n", "${PORT}", "LLM(model=", "**x",
    "f'{a}'", "%A%", "^\n", "`\n", "\r\n", "\x00", "\ufeff", "\u00e9", "\U0001f600", "\ue000",
    "\x1b[31m", "{{ .Values.x }}", "{% if %}", "---\n", "a" * 300, "(" * 60, "[" * 200, "{" * 90,
    "$" * 40, "1e999", f"HF_TOKEN={SECRET}", f"--api-key {SECRET}",
    f"- name: HF_TOKEN\n  value: {SECRET}\n", "# advisor: ignore=SD2 x", "true", "null", "128k",
    "@", "%i", "~", ".inf", "-.nan", "-1", "0", "1" * 400, "2026-13-40", "{a: " * 80, "[" * 90,
    "- " * 90, "\x1b]0;x\x07", '"\\e]0;x\\a"', "\u202e", "\u200b", "\x85", "\u2028", "\U000e0041",
    ",", "=1+1", "@SUM(1)", "+cmd|' /C calc'!A0", "-2", '"a\nb"', "NaN", "inf", "%s", "{}",
    "a" * 3000, "\xff", "id: ", "source: x", "value: 1", "{value: 1, source: s}", "unit: GB", '{"',
    '":', "}]", "\\u0000", "\\ud800", "mtp", "output_tok_s", "runs:\n", SECRET, "Bearer abcdefgh12",
)]  # fmt: skip
SEEDS = (
    ("a.py", b"from vllm import LLM\nK = 2\n"
     b"llm = LLM(model='Qwen/Qwen3.6-27B', speculative_config={'method': 'mtp', "
     b"'num_speculative_tokens': K})\n"),
    ("a.container", b"[Container]\nImage=vllm/vllm-openai:v0.25.1\nEnvironment=A=b\n"
     b"Exec=--model Qwen/Qwen3.6-27B \\\n  --max-num-seqs 4\n"),
    ("a.yaml", b"macros:\n  base: llama-server --port ${PORT}\nmodels:\n  a:\n"
     b"    cmd: ${base} -m /m/q.gguf --spec-type draft-mtp\n"),
    ("a.yaml", b"model: Qwen/Qwen3.6-27B\nspeculative-config: {method: mtp, "
     b"num_speculative_tokens: 3}\nmax-num-seqs: 4\n"),
    ("Dockerfile", b'FROM vllm/vllm-openai:v0.25.1\nENV A=b\nENTRYPOINT ["vllm", "serve"]\n'
     b'CMD ["Qwen/Qwen3.6-27B", "--spec-method", "mtp"]\n'),
    ("a.cmd",
     b'@echo off\nset M=C:\\m.gguf\nllama-server.exe -m "%M%" ^\n  --spec-type draft-mtp\n'),
    ("a.ps1", b'$env:A = "1"\n& llama-server.exe -m q.gguf `\n  --spec-type draft-mtp\n'),
    ("Makefile", b"K ?= 2\nifdef BIG\nK = 5\nendif\nexport A = b\ndefine START\n"
     b"vllm serve m --port $(1)\nendef\nserve: PORT = 1\nserve: x\n"
     b"\t@$(call START,$(PORT)) -tp $(K)\n"),
    ("justfile", b'k := if os() == "x" { "1" } else { "2" }\nserve port=\'1\':\n'
     b"    vllm serve m --port {{port}} -tp {{ k }}\n"),
    ("a.ps1", b"$a = @('serve', 'm')\nStart-Process vllm -ArgumentList $a,'--port','3'\n"
     b'& vllm @("serve","m")\n'),
    ("a.env", b"LLAMA_ARG_MODEL=/m/q.gguf\nLLAMA_ARG_SPEC_TYPE=draft-mtp\n"),
    ("a.sh", b"N=${N:-3}\nARGS=(--model m)\nif (( N > 0 )); then ARGS+=(--spec-tokens $N); fi\n"
     b'for k in 1 2; do vllm serve "${ARGS[@]}" -tp $k; done\n'),
)  # fmt: skip


def corpus() -> list[tuple[str, bytes]]:
    """The seeds: the corpus files and one text for each form that they lack."""
    files = sorted((ROOT / "tests" / "corpus").glob("case-*"))
    return [("a" + path.suffix, path.read_bytes()) for path in files] + list(SEEDS) * 2


def mutate(
    seeds: Sequence[bytes], chance: random.Random, longest: int = 6_000, seed: bytes | None = None
) -> bytes:
    """One input: a seed with slices cut, doubled and spliced, bytes and words put in."""
    data = bytearray((chance.choice(seeds) if seed is None else seed)[:longest])
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 3, 10, 60, 400)))
        kind = chance.randrange(6)
        if kind == 0:
            del data[at:end]
        elif kind == 1:
            data[at:at] = data[at:end] * chance.choice((1, 2, 5))
        elif kind == 2:
            data[at:end] = bytes(chance.randrange(256) for _ in range(chance.randrange(5)))
        elif kind == 3:
            other = chance.choice(seeds)
            start = chance.randrange(len(other) + 1)
            data[at:at] = other[start : start + chance.randrange(200)]
        else:
            data[at:at] = chance.choice(WORDS)
    return bytes(data)


class Target(Protocol):
    """What is fuzzed: makes an input, and raises where the property does not hold."""

    def make(self, chance: random.Random) -> bytes: ...

    def check(self, data: bytes) -> None: ...


class Readers:
    """Any bytes under any file name; every 50th reading is judged as well."""

    def __init__(self, folder: Path | None = None) -> None:
        self.seeds, self.name, self.count = corpus(), "", -1

    def make(self, chance: random.Random) -> bytes:
        self.count += 1
        self.name, seed = chance.choice(self.seeds)
        if len(seed) > 900 and chance.random() < 0.85:  # a million of them fit into an evening
            lines, share = seed.splitlines(keepends=True), 800 / len(seed)
            kept = [x for x in lines if chance.random() < share or x[:1] not in b" \t#"]
            seed = b"".join(kept if chance.random() < 0.5 else lines[: max(12, len(kept))])
        if chance.random() > 0.7:
            self.name = chance.choice(NAMES)
        return mutate([data for _, data in self.seeds], chance, len(seed), seed)

    def check(self, data: bytes) -> None:
        check(data, self.name, self.count % 50 == 0)


def check(data: bytes, name: str, deep: bool) -> None:
    """The property of a reading. Raises for a failure; AdvisorError is an answer."""
    with answers_or_says():
        read = read_bytes(data, name)
        for launch in read.launches:
            shown = " ".join(str(flag.value) for flag in launch.flags) + str(launch.model)
            assert SECRET not in read.redactor.clean(shown), "a secret is shown"
            for span in (flag.span for flag in launch.flags if flag.span is not None):
                assert 0 <= span.start <= span.end <= len(read.source.text), "a span outside"
        if deep:
            judge(read)


@contextmanager
def answers_or_says() -> Iterator[None]:
    """An answer or one sentence, in time; what else the machine does counts for nothing."""
    begun = time.process_time()
    try:
        yield
    except AdvisorError as error:
        said = str(error).strip()
        assert said and "\n" not in said and "Traceback" not in said, f"no clear sentence: {said!r}"
    spent = time.process_time() - begun
    assert spent < SLOW_S, f"took {spent:.1f} s"


def visible(text: str, kept: str = "\n\t\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}") -> None:
    """No character that a terminal obeys, that has no width or turns the writing round."""
    for ch in text:
        odd = unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        assert ch in kept or not odd, f"{ch!a} in what is shown: {ascii(text)[:80]}"


def judge(read: FileRead, given: Given = GIVEN) -> None:
    """Every launch is judged, nothing secret is said, nothing that a terminal obeys."""
    from advisor.domain.printable import json_text
    from advisor.lint import fixes
    from advisor.lint.validate import check_launch, with_changes
    from advisor.render.findings.hosts import report_github, report_sarif
    from advisor.render.findings.json_out import report_json
    from advisor.render.findings.text import report_text

    report = with_changes(check_launch(read, given))
    assert not report.failures, report.failures[0].text
    change = fixes.apply_edits(read.source, report.findings, unsafe=True)
    shown = [
        report_text(report),
        json_text(report_json(report)),
        json_text(report_sarif(report)),
        report_github(report),
        read.redactor.clean(fixes.diff(change)),
    ]
    assert "an error of advisor itself" not in shown[1]  # an estimate that failed
    for text in shown[:4]:
        visible(text)
    for text in shown:
        assert SECRET not in text, "a secret is printed"


def key_of(error: Exception) -> str:
    """What tells one failure from another: its kind, its place and how its message begins."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    return f"{type(error).__name__} at {place}: {str(error)[:100]}"


def run(
    target: Target, count: int, seed: int, keep: Path | None = None, name: str = "readers"
) -> Counter[str]:
    """Check `count` inputs of a target; the distinct failures with how often each was met."""
    failures: Counter[str] = Counter()
    for number in range(count):
        data = target.make(random.Random(seed * 1_000_003 + number))
        try:
            with answers_or_says():
                target.check(data)
        except Exception as error:
            failures[key := key_of(error)] += 1
            if failures[key] == 1:
                print(f"{name} {number}: {key!a}", flush=True)
                if keep is not None:
                    (keep / f"{name}-{seed}-{number}").write_bytes(data)
    return failures


def main(targets: Mapping[str, Callable[[Path], Target]]) -> int:
    """Run the targets that the command line names; 1 where one of them failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", choices=[*targets, "all"], default="all")
    parser.add_argument("--count", type=int, default=2_000, help="inputs of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "advisor-fuzz")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    bad = 0
    for name in targets if options.target == "all" else [options.target]:
        # a launch that is judged with a load takes as long as thirty others
        few = name == "launches" and options.target == "all"
        count, begun = max(1, options.count // 10) if few else options.count, time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            failures = run(targets[name](Path(folder)), count, options.seed, options.keep, name)
        rate = count / (time.perf_counter() - begun)
        print(f"{name}: {count} inputs, {rate:.0f}/s, {len(failures)} distinct failures")
        for key, times in failures.most_common():
            print(f"{times:>7}  {key}")
        bad += len(failures)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main({"readers": Readers}))
