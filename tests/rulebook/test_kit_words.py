"""Which word a wrong one meant, and what names of models tell."""

import pytest

from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.rules.kit import models, values
from tests.rulecases import launch_case as case_of

KV = ("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16")
MEANT = [  # a wrong word, the choices, the one that it meant
    ("FP8-E4M3", KV, "fp8_e4m3"),
    ("fp8.e5m2", KV, "fp8_e5m2"),
    ("bf16", KV, "bfloat16"),
    ("f8", KV, "fp8"),
    ("none", KV, "auto"),
    ("none", ("fp8",), None),
    ("bfl", KV, "bfloat16"),
    ("bf", KV, None),  # too short to be a beginning
    ("fp8_", ("fp8", "fp8x"), "fp8"),
    ("mpt", ("mtp", "ngram"), "mtp"),  # letters mixed up
    ("hrmeess", ("hermes", "mistral"), "hermes"),
    ("flash-attention", ("flash-attn", "triton"), "flash-attn"),
    ("zzz", KV, None),
    ("ab", ("ba", "abba"), "ba"),
    ("abc", ("acb", "bca"), "bca"),  # both have its letters: the more similar
    ("gpt_oss", ("openai", "hermes"), "openai"),
    ("8bit", ("q8_0", "q4_0"), "q8_0"),
]


@pytest.mark.parametrize(("word", "choices", "meant"), MEANT)
def test_choice_that_a_word_meant(word: str, choices: tuple[str, ...], meant: str | None) -> None:
    assert values.nearest(word, choices) == meant


SLIPS = {
    ("--max-num-sqes", "--max-num-seqs"): True,
    ("--max-num-seq", "--max-num-seqs"): True,
    ("--max-num-seqss", "--max-num-seqs"): True,
    ("--max-num-seqs", "--max-num-seqs"): False,
    ("--max-num-seqs", None): False,
    ("q6_0", "q8_0"): False,  # other digits are another thing
    ("mpt", "mtp"): True,
    ("mtx", "mtp"): False,  # three letters, and one of them is another
    ("ngra", "ngram"): True,
    ("flash-attention", "flash-attn"): True,
    ("--draft-attention-backend", "--attention-backend"): False,  # a word more
    ("--reasoning-parse", "--reasoning-parser"): True,
    ("--speculative", "--speculative-config"): False,  # a word less
    ("--speculativ", "--speculative-config"): True,  # cut off
    ("--enable", "--disable"): False,
    ("eagel", "eagle"): True,
    ("eeagle", "eagle"): True,
    ("eagls", "eagle"): True,
    ("house", "eagle"): False,
}


@pytest.mark.parametrize(("word", "near"), SLIPS)
def test_a_slip_leaves_no_doubt(word: str, near: str | None) -> None:
    assert values.slip(word, near) == SLIPS[word, near]


def test_choices_fold_case_and_truth_words() -> None:
    assert values.matches_choice("FP8", KV) and not values.matches_choice("fp9", KV)
    assert values.matches_choice("1", ("on", "off")) and values.matches_choice("True", ("auto",))
    assert not values.matches_choice("1", ("yes", "no")) and not values.matches_choice("2", ("on",))
    backend = "--distributed-executor-backend"
    assert values.matches_choice("my.own.Backend", ("mp", "ray"), backend)
    assert not values.matches_choice("my.own.Backend", ("mp", "ray"), "--other")
    assert not values.matches_choice("mine", ("mp", "ray"), backend)
    assert values.matches_choice("Auto-Round", ("fp8",), "--quantization")
    assert not values.matches_choice("auto-round", ("fp8",), "--kv-cache-dtype")


def test_the_values_of_an_option_are_those_of_its_release() -> None:
    case = case_of("vllm serve m --kv-cache-dtype fp8 --tool-call-parser hermes\n")
    for name in ("--kv-cache-dtype", "--tool-call-parser"):
        found = case.flag(name)
        assert found is not None and values.is_accepted(case, found)
        assert not values.is_accepted(case, found.model_copy(update={"value": "zzz"}))
    unknown = case.launch.flags[0].model_copy(update={"name": "--nothing", "value": "x"})
    assert values.is_accepted(case, unknown)


def test_a_plug_in_may_add_parsers() -> None:
    text = "vllm serve m --tool-call-parser mine --tool-parser-plugin p.py\n"
    case = case_of(text)
    found = case.flag("--tool-call-parser")
    assert found is not None and values.is_accepted(case, found)
    kv = case_of(text.replace("--tool-call-parser mine", "--kv-cache-dtype zzz"))
    wrong = kv.flag("--kv-cache-dtype")
    assert wrong is not None and not values.is_accepted(kv, wrong)


def test_lists_beside_the_catalogue_count_as_well() -> None:
    for name, row in table("compatibility")["value_lists"]["llama-server"].items():
        case = case_of(f"llama-server -m m.gguf {name} {row['value'][0]}\n")
        found = case.flag(name)
        assert found is not None and values.is_accepted(case, found), name
        wrong = found.model_copy(update={"value": "no-such-value"})
        assert not values.is_accepted(case, wrong), name


NAMES = {"Qwen/Qwen3-8B": "qwen3-8b", "/models/Qwen3-8B/": "qwen3-8b",
         "C:\\models\\Qwen3-8B.gguf": "qwen3-8b", "org/Model-GGUF:Q4_K_M": "model-gguf",
         "plain": "plain"}  # fmt: skip


@pytest.mark.parametrize("text", NAMES)
def test_the_base_of_a_name(text: str) -> None:
    assert models.base_name(text) == NAMES[text]


def test_code_of_a_repository() -> None:
    row = table("compatibility")["needs_remote_code"]
    assert models.remote_code_kind("kimi-k2-instruct", "vllm") == "error"
    assert models.remote_code_kind("qwen3-8b", "vllm") is None
    assert models.remote_code_kind("xkimi-k2-instruct", "vllm") is None  # within another word
    unsure = row["warning"][0].replace("\\", "")
    assert models.remote_code_kind(unsure, "sglang") is None  # SGLang has a class of its own
    assert models.writes_remote_code("moonshotai/Kimi-K2-Instruct", "vllm", None)
    assert not models.writes_remote_code("Qwen/Qwen3-8B", "vllm", "0.25.1")


def test_code_of_a_repository_up_to_a_release() -> None:
    bounds = table("compatibility")["needs_remote_code"]["written_up_to"]
    tried = 0
    for one in bounds:
        name = one["name"].replace("\\", "").replace("$", "").replace("[-.]", "-")
        for engine in ("vllm", "sglang"):
            if engine not in one or models.remote_code_kind(name, engine) is not None:
                continue
            if not models.writes_remote_code(name, engine, one[engine]):
                continue  # the name is a pattern that is no name
            tried += 1
            assert not models.writes_remote_code(name, engine, "99.0.0")
            assert not models.writes_remote_code(name, engine, None)
            assert models.writes_remote_code(name, engine, "0.0.1")
    assert tried


def test_the_first_release_of_a_model_is_that_of_its_longest_name() -> None:
    rows = table("compatibility")["model_since"]
    for row in rows:
        found = models.first_release(row["model"], row["engine"])
        assert found is not None and found["model"] == row["model"]
        assert models.first_release(row["model"] + "-x", row["engine"]) is not None
    assert models.first_release("no-such-model", "vllm") is None
    assert models.first_release(rows[0]["model"], "no-such-engine") is None


def test_a_release_comes_before_another() -> None:
    row = {"since": "0.10.0"}
    assert models.comes_before((0, 9, 9), row) and not models.comes_before((0, 10, 0), row)
    assert not models.comes_before(None, row)
    read = row | {"lacks": "0.9.2"}  # between the two nobody looked
    assert models.comes_before((0, 9, 2), read) and not models.comes_before((0, 9, 3), read)


def test_a_name_is_the_published_models_own() -> None:
    model = knowledge.llm("qwen3.6-35b-a3b")
    for text in (
        "Qwen/Qwen3.6-35B-A3B",
        "someone/Qwen3.6-35B-A3B-AWQ-int4",
        "qwen3.6-35b-a3b.gguf",
    ):
        assert models.names_itself(model, text) is True, text
    assert models.names_itself(model, "me/Qwen3.6-35B-A3B-medical") is False
    for text in ("me/Qwen3.6-35B-A3B-1M", "Qwen3.6-35B-A3B-256k", "Qwen3.6-35B-A3B-yarn"):
        assert models.names_itself(model, text) is None, text


def test_who_has_no_head() -> None:
    lacking = "meta-llama/Llama-3.3-70B-Instruct"
    names = (lacking, "Qwen/Qwen3.6-35B-A3B", "me/Llama-3.3-70B-MTP")
    assert [name for name in names if models.no_head(name)] == [lacking]
    for text in (*names, "$MODEL", "nobody/knows-this"):
        assert models.headless(case_of(f"vllm serve '{text}'\n")) is (text == lacking), text


def test_vocabularies() -> None:
    family, size = table("compatibility")["vocabularies"]["value"][0]
    assert models.vocabulary(family.replace("[-_]", "-")) == size
    assert models.vocabulary("nobody/knows-this") is None


def test_whom_a_drafter_was_made_for() -> None:
    for name in ("RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3", "Llama-3.3-70B-EAGLE3"):
        found = models.target_of(name)
        assert found is not None and found.id == "llama-3.3-70b", name
    assert models.target_of("nobody/eagle3-head") is None
