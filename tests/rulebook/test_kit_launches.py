"""What rules ask of a launch: its options, devices, releases, memory, and where an edit goes."""

import math
from typing import Any

import pytest

from advisor import engines
from advisor.domain.nouns import Case, Facts, Request
from advisor.knowledge import store as knowledge
from advisor.readers import read_text
from advisor.rules import registry
from advisor.rules.kit import fixes, flags, policy, releases
from advisor.rules.kit.case import on_rocm
from advisor.rules.sd3.shares import together
from tests.rulecases import launch_case as case_of

A, B = "vllm serve a --port 1", "vllm serve b --port 2"


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (A, B, False),  # of neither the device is named
        (f"CUDA_VISIBLE_DEVICES=0 {A}", f"CUDA_VISIBLE_DEVICES=1 {B}", False),
        (f"CUDA_VISIBLE_DEVICES=0 {A}", f"CUDA_VISIBLE_DEVICES=0 {B}", True),
        (f"CUDA_VISIBLE_DEVICES=0,1 {A} -tp 2", f"CUDA_VISIBLE_DEVICES=1 {B}", True),
        (f"CUDA_VISIBLE_DEVICES=0 {A}", B, False),
        # on one port: one after the other
        (f"CUDA_VISIBLE_DEVICES=0 {A}", "CUDA_VISIBLE_DEVICES=0 vllm serve b --port 1", False),
        (f"CUDA_VISIBLE_DEVICES=0 {A} --headless", f"CUDA_VISIBLE_DEVICES=0 {B}", False),
    ],
)
def test_two_servers_on_one_device(one: str, other: str, shared: bool) -> None:
    first, second = read_text(f"{one}\n{other}\n", "a.sh").launches
    assert together(first, second) is together(second, first) is shared


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [("", "", True), ("all", "all", True), ("0", "1", False), ("0,1", "1", True), ("1", "", False)],
)
def test_two_containers_on_one_device(one: str, other: str, shared: bool) -> None:
    text = "services:\n"
    for number, seen in enumerate((one, other)):
        text += (
            f"  s{number}:\n    image: vllm/vllm-openai:v0.25.1\n"
            f"    command: --model m{number} --port {number + 1}\n"
            f"    environment: {{NVIDIA_VISIBLE_DEVICES: '{seen}'}}\n"
        )
    assert together(*read_text(text, "compose.yaml").launches) is shared


def test_options_as_rules_ask_for_them() -> None:
    case = case_of("A=1 vllm serve m --seed 1 --seed 2 --port $P --enforce-eager --swap-space 0\n")
    assert case.value("--none", "--seed") == "2"
    assert case.value("--port") is None and case.value("--none") is None
    assert case.open_value("--port") and not case.open_value("--seed")
    assert case.has_switch("--enforce-eager")
    assert not case.has_switch("--none") and not case.has_switch("--swap-space")
    assert case.unread() and not case_of("vllm serve m --seed 1\n").unread()


def test_every_rule_hears_of_the_launch_at_hand() -> None:
    """What is kept of the last launch is not taken for the next one's."""
    one = case_of('vllm serve m --seed 1 --speculative-config \'{"method": "mtp"}\'\n')
    other = case_of('vllm serve m --seed 2 --speculative-config \'{"method": "ngram"}\'\n')
    for _ in range(2):
        for case, seed, method in ((one, "1", "mtp"), (other, "2", "ngram")):
            read = flags.spec_config(case)
            assert case.value("--seed") == seed
            assert read is not None and read.data == {"method": method}


def image(tag: str) -> Case:
    return case_of(f"docker run --gpus all vllm/vllm-openai{tag} --model m\n")


def test_whether_a_server_runs_on_rocm() -> None:
    assert on_rocm(case_of("docker run rocm/vllm:latest vllm serve m\n")) is True
    assert on_rocm(image(":v0.25.1-cu129")) is False and on_rocm(image(":v0.25.1-cuda")) is False
    assert on_rocm(image(":v0.25.1")) is None and on_rocm(case_of("vllm serve m\n")) is None
    for hw, amd in (("mi300x", True), ("h100", False)):
        case = image(":v0.25.1-cu129")
        facts = case.facts.model_copy(update={"hardware": knowledge.hardware(hw)})
        assert on_rocm(case.model_copy(update={"facts": facts})) is amd


def test_the_speculative_configuration_as_it_was_read() -> None:
    def read(text: str) -> Any:
        return flags.spec_config(case_of(f"vllm serve m {text}\n"))

    assert read("") is None and read("--speculative-config $X") is None
    assert read("--speculative-config '[1]'").error == "it holds a list, not an object"
    broken = read("--speculative-config '{\"a\" 1}'")
    assert broken.data is None and broken.error.endswith("at character 6")
    dotted = read("--speculative-config.method mtp --speculative-config.num_speculative_tokens 2")
    assert dotted.data == {"method": "mtp", "num_speculative_tokens": 2}
    assert read("--speculative-config.method $M") is None


def test_how_a_release_takes_an_option() -> None:
    def look_up(version: str, option: str) -> str:
        case = case_of(f"vllm serve m {option}\n", version=version)
        return flags.option_at_release(case, case.launch.flags[-1])

    assert look_up("0.25.1", "--seed 1") == "taken"
    assert look_up("0.25.1", "--no-such-option 1") == "unknown"
    assert look_up("0.25.1", "--ctx-size 1") == "foreign"
    newest = flags.catalogue(case_of("vllm serve m\n"))
    later = next(
        name
        for name in newest.names(newest.newest)
        if newest.since(name) == newest.newest and name.startswith("--")
    )
    assert look_up(newest.versions[0], f"{later} 1") == "too-new"


def test_a_removal_hits_from_its_release_on() -> None:
    known = flags.catalogue(case_of("vllm serve m\n"))
    name, gone = next(
        (name, removal.version)
        for name in known._records
        if (removal := known.removal(name)) is not None and removal.version is not None
    )
    before = known.versions[known.index(gone) - 1]
    for version, hit in ((before, False), (gone, True), (None, True)):
        case = case_of(f"vllm serve m {name} 1\n", version=version)
        removal = flags.find_removal(case, case.launch.flags[-1])
        assert (removal is not None) is hit, version


def test_a_release_lies_between_two() -> None:
    assert releases.between((0, 5, 13), "0.5.10", "0.5.13") is True
    assert releases.between((0, 5, 13, 1), "0.5.10", "0.5.13") is True  # a post release of the end
    assert releases.between((0, 5, 14), "0.5.10", "0.5.13") is False
    assert releases.between((0, 5, 9), "0.5.10", None) is False
    assert (
        releases.between((9, 0), None, None) is True and releases.between(None, "1", None) is None
    )


def test_affected_releases_in_words() -> None:
    def words(since: str | None, until: str | None) -> str:
        return registry.Defect("x", since, until, "", False, (), ()).versions

    assert words("0.1", "0.2") == "0.1 to 0.2" and words("0.1", "0.1") == "0.1"
    assert words("0.1", None) == "0.1 and later (no fixed release known)"
    assert words(None, "0.2") == "releases up to 0.2" and words(None, None) == ""


def test_builds_of_llama_cpp_have_an_order() -> None:
    assert releases.build_order("b9235") == (0, 9235)
    rows = engines.get("llama-server").catalogue.notes["builds"]
    assert rows
    for row in rows:
        build = row["id"].removeprefix("b")
        order = int(build) if build.isdigit() and row["id"].startswith("b") else int(row["order"])
        assert releases.build_order(row["id"]) == (0, order)
    assert releases.build_order("nonsense") is None and releases.build_order(None) is None


def test_the_release_of_a_question() -> None:
    newest = engines.get("llama-server").newest

    def question(engine: str, version: str | None, text: str | None) -> Any:
        request = Request(hardware="gb10", engine_version=text)
        return releases.asked_release(Facts(engine=engine, engine_version=version, request=request))

    assert question("vllm", "0.25.1", None) == (0, 25, 1)
    assert question("llama-server", newest, None) == releases.build_order(newest)
    order = (releases.build_order(newest) or (0, 0))[1]
    between = f"b{order + 1}"  # the catalogue's row holds for it, the build is its own
    if engines.get("llama-server").resolve_version(between).version == newest:
        assert question("llama-server", newest, between) == (0, order + 1)
    assert question("llama-server", newest, "b1") == releases.build_order(newest)


SERVE = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 8192"


def test_the_bill_is_that_of_the_case_at_hand() -> None:
    small = case_of(f"{SERVE} --gpu-memory-utilization 0.5\n", hw="h100", concurrency=4, ctx=2048)
    large = case_of(f"{SERVE} --gpu-memory-utilization 0.9\n", hw="h100", concurrency=4, ctx=2048)
    for _ in range(2):
        less, more = policy.bill(small), policy.bill(large)
        assert less is not None and more is not None and more.kv_tokens and less.kv_tokens
        assert more.kv_tokens > less.kv_tokens
    other = small.model_copy(update={"plan": large.plan})  # the same facts, another plan
    assert policy.bill(small) != policy.bill(other)
    assert policy.bill(small.model_copy(update={"facts": large.facts})) is not None


def test_there_is_no_bill_without_hardware_or_sizes() -> None:
    assert policy.bill(case_of(f"{SERVE}\n")) is None
    case = case_of(f"{SERVE} -tp $TP\n", hw="h100")
    assert policy.bill(case) is None
    assert policy.unknown_sizes(case) == (registry.Lacking(("--tensor-parallel-size",)),)
    assert policy.unknown_sizes(case_of(f"{SERVE} --port $P\n", hw="h100")) == ()


def test_a_pool_that_is_told_replaces_what_the_share_leaves() -> None:
    plain = policy.bill(case_of(f"{SERVE}\n", hw="h100"))
    size = 2 << 30
    told_size = policy.bill(case_of(f"{SERVE} --kv-cache-memory-bytes {size}\n", hw="h100"))
    assert plain is not None and told_size is not None and told_size.kv_gib == 2.0
    assert math.isclose(told_size.kv_tokens / plain.kv_tokens, 2.0 / plain.kv_gib, rel_tol=1e-3)


def test_requests_that_run_at_once() -> None:
    def count_running(text: str, **given: Any) -> int | None:
        return policy.running_requests(case_of(text, **given))

    assert count_running(f"{SERVE}\n", hw="h100") is None
    assert count_running(f"{SERVE}\n", concurrency=7) == 7
    assert count_running(f"{SERVE} --max-num-seqs 3\n", concurrency=7) == 3
    assert count_running(f"{SERVE} --max-num-seqs 9\n", hw="h100", concurrency=7, ctx=2048) == 7
    crowded = count_running(
        f"{SERVE} --gpu-memory-utilization 0.55\n", hw="h100", concurrency=9999, ctx=7000
    )
    assert crowded is not None and 0 < crowded < 9999
    assert policy.streams(case_of(f"{SERVE} -dp 2\n", concurrency=7)) == 4
    assert (
        policy.demand_tokens(case_of(f"{SERVE}\n", concurrency=7, ctx=100, output_tokens=28)) == 896
    )
    assert policy.demand_tokens(case_of(f"{SERVE}\n", concurrency=7)) is None


def test_the_setting_of_a_case_has_all_that_tells_regimes_apart() -> None:
    setting = policy.setting_of(
        case_of(f"{SERVE} --attention-backend triton_mla -dp 2 --kv-cache-dtype fp8 "
                '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 3}\'\n',
                hw="gb10", concurrency=7, ctx=2048, output_tokens=99, workload="code")
    )  # fmt: skip
    words = {name: getattr(setting, name).value for name in setting._fields[:13]}
    model = knowledge.llm("qwen3.6-35b-a3b")
    hardware = knowledge.hardware("gb10")
    assert words == {"engine": "vllm", "method": "mtp", "hardware": "gb10", "vendor": "nvidia",
                     "hardware_class": hardware.hardware_class, "arch": hardware.arch,
                     "model": model.id, "family": model.family, "model_arch": model.arch,
                     "quant": "fp8", "quant_family": "fp8", "workload": "code",
                     "backend": "TRITON_MLA"}  # fmt: skip
    assert setting.known and setting.unified and setting.sparse and not setting.dense
    assert setting.hybrid and not setting.latent and not setting.wide_kv and not setting.suffix
    assert (setting.streams, setting.ctx, setting.output, setting.k) == (4.0, 2048.0, 99.0, 3.0)
    assert setting.total_params_b == model.total_params_b


ROWS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"engine": ["vllm"]}, True),
    ({"engine": ["sglang"]}, False),
    ({"hardware": ["gb10"], "method": ["none"]}, True),
    ({"vendor": ["amd"]}, False),
    ({"sparse_moe": True}, True),
    ({"sparse_moe": False}, False),
    ({"unified": True}, True),
    ({"concurrency": [7, 7]}, True),
    ({"concurrency": [8, None]}, False),
    ({"concurrency": [None, 6]}, False),
    ({"ctx_tokens": [None, None]}, True),
    ({"k": [None, 3]}, False),  # nothing is drafted
    ({"quant": ["fp8"], "quant_family": ["fp8"], "family": ["nothing"]}, False),
]


@pytest.mark.parametrize(("row", "fits"), ROWS)
def test_rows_fit_a_case_by_their_filters(row: dict[str, Any], fits: bool) -> None:
    assert policy.matches(row, case_of(f"{SERVE}\n", hw="gb10", concurrency=7, ctx=2048)) is fits
    nothing = case_of("vllm serve unknown-model\n")
    assert policy.matches(row, nothing) is (row in ({}, {"engine": ["vllm"]}))


def test_an_option_that_is_there_is_not_added() -> None:
    case = case_of("vllm serve m --seed 1 --enable-prefix-caching\n")
    seed = case.launch.flag("--seed")
    assert fixes.add_fix(case, seed, "--port", "1", "w").edits
    assert not fixes.add_fix(case, seed, "--seed", "1", "w").edits
    assert not fixes.add_fix(case, seed, "--no-enable-prefix-caching", None, "w").edits
    assert not fixes.add_fix(case, None, "--port", "1", "w").edits
    ours = case.model_copy(update={"launch": case.launch.model_copy(update={"emitted": True})})
    assert not fixes.add_fix(ours, seed, "--port", "1", "w").edits


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("--no-enable-prefix-caching", None, "enable_prefix_caching=False, "),
     ("--enforce-eager", None, "enforce_eager=True, "), ("--max-num-seqs", "8", "max_num_seqs=8, "),
     ("--kv-cache-dtype", "fp8", "kv_cache_dtype='fp8', ")],
)  # fmt: skip
def test_an_option_is_a_keyword_in_python(name: str, value: str | None, text: str) -> None:
    launch = read_text("from vllm import LLM\nLLM('m', seed=1)\n", "a.py").launches[0]
    assert fixes.addition("a.py", launch.flag("--seed"), name, value).text == text


SHARED = (
    "ARGS='--max-num-seqs 4'\nvllm serve m --port 1 $ARGS\n"
    "python -m sglang.launch_server --model-path m --port 2 $ARGS\n"
)


def test_a_place_that_another_engine_shares_is_not_safe() -> None:
    shared, alone = case_of(SHARED), case_of("vllm serve m --max-num-seqs 4\n")
    for case, safe in ((shared, False), (alone, True)):
        found = case.launch.flag("--max-num-seqs")
        made = fixes.set_fix(case, found, "8", "w", safe=True)
        assert made.edits and made.safe is safe and made.text == "w"
        assert not fixes.set_fix(case, found, "8", "w").safe
        assert fixes.drop_fix(case, found, "w", safe=True).safe is safe
    assert not fixes.set_fix(alone, None, "8", "w").edits
    assert not fixes.drop_fix(alone, None, "w", safe=True).edits
