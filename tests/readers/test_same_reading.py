"""A file is read alike whatever the hash seed, the order of the files and the garbage collector."""

import os
import subprocess
import sys
from pathlib import Path

from advisor.advice.recommend import recommend
from advisor.domain.nouns import AdvisorError
from advisor.render.forms import FORMS, STARTS

READ = """
import gc, hashlib, random, sys
from pathlib import Path
from advisor.lint.validate import validate
random.seed(int(sys.argv[1]))
gc.set_threshold(random.choice((1, 10, 700)))
files = sorted(p for p in Path(sys.argv[2]).iterdir())
random.shuffle(files)
told = {}
for path in files:
    report = validate(None, text=path.read_text(encoding="utf-8"), name=path.name.split("-", 1)[1])
    told[path.name] = [(f.code, f.severity, f.message) for f in report.findings]
    told[path.name] += [repr(vars(launch.plan)) for launch in report.launches]
print(len(told), hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest())
"""


def test_every_reading_of_emitted_files_is_the_same(tmp_path: Path) -> None:
    for engine in ("vllm", "sglang", "llama-server"):
        advice = recommend(hardware="gb10", engine=engine, concurrency=16, what_if=False)
        for form in STARTS:
            try:
                text = FORMS[form].write(advice)
            except AdvisorError:
                continue
            (tmp_path / f"{engine}-{FORMS[form].file}").write_text(text, encoding="utf-8")
    told = set()
    for seed in ("1", "2"):
        done = subprocess.run([sys.executable, "-c", READ, seed, str(tmp_path)],
                              env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True,
                              text=True, check=True, timeout=900)  # fmt: skip
        told.add(done.stdout)
    assert len(told) == 1 and int(next(iter(told)).split()[0]) >= 15
