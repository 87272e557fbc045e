"""The releases that a launch can be: cut by its model, its options and values, its image."""

import pytest

from advisor.domain.versions import parse_release
from advisor.lint import fixes
from advisor.lint.validate import validate
from advisor.rules.kit.releases import possible, within
from tests.rulecases import launch_case as case_of

MTP = '--speculative-config \'{"method":"mtp","num_speculative_tokens":2}\''
SGLANG = "python3 -m sglang.launch_server --model-path"


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        # first releases: vllm-project/recipes, sgl-project/sgl-cookbook (model_since); options and
        # values: the parsers of the releases
        ("vllm serve Qwen/Qwen3-8B", "0.19.1", "0.33.0"),
        ("vllm serve Qwen/Qwen3.8-Flash-Next", "0.29.0", "0.33.0"),
        (f"vllm serve Qwen/Qwen3.8-Flash-Next-FP8 {MTP}", "0.29.0", "0.33.0"),
        (f"vllm serve Qwen/Qwen3-8B {MTP.replace('mtp', 'dspark')}", "0.25.1", "0.33.0"),
        ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype turboquant_4bit_nc", "0.20.2", "0.33.0"),
        (f"{SGLANG} Qwen/Qwen3-8B --speculative-algorithm NEXTN", "0.5.9", "0.5.23"),
        (f"{SGLANG} Qwen/Qwen3-8B --mamba-radix-cache-strategy no_buffer", "0.5.14", "0.5.23"),
        ("vllm serve Qwen/Qwen3-8B --max-num-sqes 4 --dtype fp16", "0.19.1", "0.33.0"),  # slips
    ],
)
def test_the_releases_that_a_launch_can_be(text: str, first: str, last: str) -> None:
    fits = possible(case_of(text))
    assert (fits[0], fits[-1]) == (first, last)


@pytest.mark.parametrize("tag", ["", "latest", "nightly"])
def test_a_defect_of_older_releases_is_not_said_of_a_model_that_they_lack(tag: str) -> None:
    head = f"docker run --gpus all vllm/vllm-openai:{tag} --model" if tag else "vllm serve"
    old, new = (
        validate(text=f"{head} Qwen/{model} --max-num-seqs 8 {MTP}")
        for model in ("Qwen3.6-27B", "Qwen3.8-Flash-Next")
    )
    assert "SD201" in {one.code for one in old.findings}
    assert "SD201" not in {one.code for one in new.findings}  # fixed in 0.28, the model needs 0.29
    assert not [one for one in new.findings if "0.28.0" in one.message]


def test_what_all_of_them_do_is_certain_and_what_lies_outside_the_catalogue_is_open() -> None:
    case = case_of("vllm serve Qwen/Qwen3.8-Flash-Next")
    assert within(case, "0.29.0", None) is True and within(case, "0.20.2", "0.28.0") is False
    assert within(case, "0.29.0", "0.33.0") is None  # a nightly is newer
    assert within(case_of("vllm serve Qwen/Qwen3-8B"), "0.10.0", "0.12.0") is None  # or older


@pytest.mark.parametrize(
    ("image", "fork", "release"),
    [
        ("vllm/vllm-openai:v0.25.1", False, "0.25.1"),
        ("registry.example:5000/team/vllm-openai:v0.26.0", False, "0.26.0"),
        ("ghcr.io/x/vllm/vllm-openai-cu130:v0.22.1", False, "0.22.1"),
        ("harbor.example/lmsysorg/sglang:v0.5.13-cu130", False, "0.5.13"),
        ("team/vllm-openai-patched:v0.26.0", True, "0.26.0"),
        ("me/vllm-fork:0.22.1", True, "0.22.1"),
        # built from other commits; what a month holds: NVIDIA's release notes
        ("nvcr.io/nvidia/vllm:26.05-py3", True, "0.20.1"),
        ("nvcr.io/nvidia/vllm:26.99-py3", True, None),
    ],
)
def test_a_mirror_is_no_fork_and_a_forks_tag_its_release(
    image: str, fork: bool, release: str | None
) -> None:
    engine = "python3 -m sglang.launch_server --model-path" if "sglang" in image else "vllm serve"
    launch = validate(text=f"docker run --gpus all {image} {engine} Qwen/Qwen3-8B").launches[0]
    assert (launch.launch.fork is not None) == fork
    assert parse_release(launch.launch.version_text) == parse_release(release)


HEAD = "llama-server -m q.gguf "


def fix(options: str) -> tuple[str, list[str]]:
    """The options after all fixes for 0.5.0, and what the fixes of SD102 say."""
    text = f"{HEAD}{options} --jinja\n"
    report = validate(text=text, name="a.sh", engine_version="0.5.0", select=["SD102"])
    change = fixes.apply_edits(report.reads[0].source, report.findings, unsafe=True)
    told = [finding.fix.text for finding in report.findings if finding.fix is not None]
    return change.text.removeprefix(HEAD).removesuffix(" --jinja\n"), told


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--no-mmap", "--load-mode none"),
        ("--mlock", "--load-mode mmap+mlock"),
        ("--no-mmap --mlock", "--load-mode mlock"),
        ("--mlock --no-mmap", "--load-mode mlock"),
        ("--mmap --mlock", "--load-mode mmap+mlock"),
        ("--direct-io --mlock", "--load-mode dio"),
        ("--direct-io", "--load-mode dio"),
        ("--direct-io --no-mmap", "--load-mode dio"),
    ],
)
def test_they_become_one(options: str, expected: str) -> None:
    found, told = fix(options)
    assert found == expected, told


def test_what_is_said_names_them_all() -> None:
    _, told = fix("--no-mmap --mlock")
    assert set(told) == {"Write --load-mode mlock instead of --no-mmap, --mlock."}
