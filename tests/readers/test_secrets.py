"""Secrets stay out of every output, told by their name, their place or their form."""

import json
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from cli_run import run
from detect_secrets import plugins
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from advisor import engines
from advisor.readers import read_text
from advisor.readers.secrets import (
    HIDDEN,
    Redactor,
    is_secret_flag,
    is_secret_name,
    learn_from_text,
)


def words(text: str) -> list[str]:
    return text.split()


SECRET_NAMES = words(
    """DB_PASSPHRASE MYSQL_PWD PWD GITHUB_PAT API_KEYS TOKENS JWT CREDS SLACK_WEBHOOK
SLACK_WEBHOOK_URL HF_TOKEN MY_SECRET HUGGING_FACE_HUB_TOKEN AWS_SECRET_ACCESS_KEY
X-Api-Key Authorization apiKey accessToken NGC_API_KEY WANDB_KEY DB_PASS OPENAI_KEY
SESSION_COOKIE SENTRY_DSN client_secret TOKEN2 hfToken PGPASSWORD proxy-authorization
HTTP_AUTH"""
)
OPEN_NAMES = words(
    """MAX_TOKENS MAX_NUM_BATCHED_TOKENS num_speculative_tokens TOKENIZER KEY
CUDA_CACHE_PATH EOS_TOKEN TOKEN_FILE HF_TOKEN_PATH topologyKey mtp_tokens PUBLIC_KEY
model_name KV_CACHE_DTYPE ALLOW_CREDENTIALS API_KEY_NAME TOKEN_LIMIT author patch"""
)
SECRET_FLAGS = words(
    """--api-key --passphrase --auth --api-keys --hf-token --admin-api-key
--ssl-keyfile-password -hft --password"""
)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_telling_name_is_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_other_names_are_none(name: str) -> None:
    assert not is_secret_name(name)


def test_of_the_engines_options_only_keys_and_tokens_of_access_are_secret() -> None:
    secret = {
        flag
        for engine in ("vllm", "sglang", "llama-server")
        for flag in engines.get(engine).catalogue.names()
        if is_secret_flag(flag)
    }
    assert secret <= {"--api-key", "--hf-token", "-hft", "--admin-api-key",
                      "--ssl-keyfile-password"}  # fmt: skip
    assert {"--api-key", "--hf-token"} <= secret


SHOWN = ("text", "json", "sarif", "github")
VALUE = "Zk4trT9wq"  # no known form: its name or place alone tells it
PLACES = [
    f"{name}={VALUE} vllm serve m --max-num-sqes {VALUE}x\n"
    for name in SECRET_NAMES[::4]
    if "-" not in name
]
PLACES += [f"vllm serve m {flag} {VALUE} --max-num-sqes 4\n" for flag in SECRET_FLAGS]
PLACES += [f"vllm serve m {flag}={VALUE} --max-num-sqes 4\n" for flag in SECRET_FLAGS]
PLACES += [
    f'vllm serve m --header "X-Api-Key: {VALUE}" --max-num-sqes 4\n',
    f"vllm serve m --header 'Authorization: Bearer {VALUE}' --max-num-sqes 4\n",
    f"curl -H 'Authorization: Bearer {VALUE}' http://x; vllm serve m --max-num-sqes {VALUE}\n",
    f"vllm serve m --max-num-sqes 4 --otlp-traces-endpoint https://user:{VALUE}@host/x\n",
    f"""vllm serve m --max-num-sqes 4 --override-generation-config '{{"api_key": "{VALUE}"}}'\n""",
]  # fmt: skip


@pytest.mark.parametrize("text", PLACES, ids=range(len(PLACES)))
def test_no_output_shows_it(text: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "a.sh"
    path.write_text(text)
    found = VALUE + "x" if VALUE + "x" in text else VALUE
    for form in SHOWN:
        told = run("validate", str(path), "--format", form)
        assert "max-num-sqes" in told.out, told
        assert not re.search(rf"{VALUE}(?!x)", told.out + told.err), (form, found)
    told = run("validate", str(path), "--diff", "--unsafe-fixes")
    assert not re.search(rf"{VALUE}(?!x)", told.out + told.err)


WORD = "aB3dE6gH9jK2mN5pZk4t"
HALVES = [
    "A=Zk4trT9wq\nB=Wm7xLp2vB\nvllm serve m --api-key $A$B --max-num-sqes 4\n",
    "A=Zk4trT9wq\nexport B='Wm7xLp2vB'\nvllm serve m --max-num-sqes 4 --api-key=${A}-${B}\n",
    'C=Zk4trT9wq\nA=$C\nB=Wm7xLp2vB\nAPI_KEY="$A$B"\nvllm serve m --max-num-sqes 4\n',
    f"vllm serve m {WORD} --max-num-sqes 4\n",
    f"vllm serve m --max-num-sqes 4 {WORD}\n",
]


@pytest.mark.parametrize("text", HALVES)
def test_no_output_shows_a_part_or_a_stray_word_of_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(text)
    for more in (*(["--format", form] for form in SHOWN), ["--diff", "--unsafe-fixes"]):
        told = run("validate", str(tmp_path / "a.sh"), *more)
        assert "max-num-s" in told.out
        for part in ("Zk4trT9wq", "Wm7xLp2vB", WORD):
            assert part not in told.out + told.err, more


IMAGE = "image: vllm/vllm-openai:v0.25.1"
ARGS = "[--model, m, --max-num-sqes, '4']"
SERVICE = f"services:\n  a:\n    {IMAGE}\n"
YAML = [f"{SERVICE}    command: {ARGS}\n    environment:\n      DB_PASSPHRASE: {VALUE}\n",
        f"{SERVICE}    command:\n      - --max-num-sqes\n      - '4'\n      - --api-key\n      - "
        f"{VALUE}\n", f"{SERVICE}    command: {ARGS}\n    environment: ['JWT={VALUE}']\n",
        f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - {IMAGE}\n      args: {ARGS}\n"
        f"      env:\n        - name: CREDS\n          value: {VALUE}\n"]  # fmt: skip


@pytest.mark.parametrize("text", YAML, ids=range(len(YAML)))
def test_no_output_shows_it_of_a_manifest(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    for form in SHOWN:
        told = run("validate", str(path), "--format", form)
        assert "max-num-sqes" in told.out and VALUE not in told.out, form
    assert VALUE not in run("validate", str(path), "--diff", "--unsafe-fixes").out


def test_the_value_of_an_ordinary_name_stays() -> None:
    report = read_text("MAX_TOKENS=4096 vllm serve m --max-num-batched-tokens 4096\n", "a.sh")
    assert report.redactor.clean("4096 tokens") == "4096 tokens"
    assert json.dumps([one.value for one in report.launches[0].env]) == '["4096"]'


@pytest.mark.parametrize(
    "value", ["/srv/models/k", "$TOKEN", "<token>", "32768", "changeme", "{{ x }}", "true"]
)
def test_what_only_stands_for_a_secret_is_shown(value: str) -> None:
    redactor = Redactor()
    redactor.learn(value)
    assert redactor.clean(f"a {value} b") == f"a {value} b"


@pytest.mark.parametrize(
    "text",
    ["bytes per token = more context, and pass: gates passed\n",
     "token = await load_token(settings)\n",
     'call(auth=auth, "tokens": tokens, pass: vLLM import)\n'],
)  # fmt: skip
def test_a_word_after_a_telling_one_in_prose_is_none(text: str) -> None:
    redactor = Redactor()
    learn_from_text(redactor, text)
    assert redactor.values == set()


@pytest.mark.parametrize(
    "text",
    ["api_key: letmein\n", "  - password: letmein  # mine\n", "API_KEY=letmein\n"]
    + ['say(password = "letmein")\n', "vllm serve m --api-key letmein\n"],
)
def test_a_word_that_is_given_as_a_value_is_one(text: str) -> None:
    redactor = Redactor()
    learn_from_text(redactor, text)
    assert redactor.values == {"letmein"}


# ---------------------------------------------------------------- forms, as detect-secrets knows
# them


def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    found = []
    # what tells an address of the network, or guesses by words, is none of ours
    left_out = ("IPPublicDetector", "BasicAuthDetector", "PrivateKeyDetector")
    for info in iter_modules(plugins.__path__, "detect_secrets.plugins."):
        for name, kind in vars(import_module(info.name)).items():
            told = isinstance(kind, type) and kind.__module__ == info.name
            if (
                told
                and name not in left_out
                and isinstance(getattr(kind, "denylist", None), list | tuple)
            ):
                found += [
                    (f"{name}-{n}", re.compile(one.pattern)) for n, one in enumerate(kind.denylist)
                ]
    return found


PATTERNS = [
    one
    for one in _patterns()
    if not re.match(
        r"(IbmC|IbmCos|Cloudant|Softlayer|SoftLayer|NpmDet|AWSKeyDetector-1|ArtifactoryDetector-1)",
        one[0],
    )
]


def test_the_library_still_has_its_detectors() -> None:
    assert len(PATTERNS) >= 18, [name for name, _ in PATTERNS]


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
def test_what_the_library_takes_for_a_secret_is_taken_out(
    name: str, pattern: re.Pattern[str]
) -> None:
    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(
        st.from_regex(
            pattern, fullmatch=True, alphabet=st.characters(max_codepoint=126, min_codepoint=33)
        )
    )
    def holds(text: str) -> None:
        assume(len(text) >= 20)
        assert HIDDEN in Redactor().clean(f"value {text} end"), text

    holds()


def test_a_private_key_and_a_password_in_an_address() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
    assert Redactor().clean(f"a {key} b") == f"a {HIDDEN} b"
    assert Redactor().clean("postgres://me:s3cret@db/x") == f"postgres://{HIDDEN}@db/x"
    assert (
        Redactor().clean("see https://docs.vllm.ai/en/latest/ and a:b@c")
        == "see https://docs.vllm.ai/en/latest/ and a:b@c"
    )


# ---------------------------------------------------------------- the redactor alone


def redact(text: str, *secrets: str) -> str:
    redactor = Redactor()
    for one in secrets:
        redactor.learn(one)
    return redactor.clean(text)


def test_a_short_secret_goes_only_where_it_stands_alone() -> None:
    assert redact("pass word-pass pass-x xpass (pass)", "pass") == (
        f"{HIDDEN} word-pass pass-x xpass ({HIDDEN})"
    )
    assert redact("a123456789b", "123456789") == "a123456789b"  # nine characters
    assert redact("aabcdefghijb", "abcdefghij") == f"a{HIDDEN}b"  # ten


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert redact("azlmnopqrst", "zlmnopqrst", "azlmnopqrst") == HIDDEN
    assert redact("abcdefghijklm", "abcdefghij", "abcdefghijklm") == HIDDEN


@pytest.mark.parametrize(
    "value", ["Bearer Zk4trT9wq", "basic Zk4trT9wq", " 'Zk4trT9wq' ", "TOKEN Zk4trT9wq"]
)
def test_a_scheme_and_quotes_are_no_part_of_it(value: str) -> None:
    assert redact("x Zk4trT9wq y", value) == f"x {HIDDEN} y"


def test_other_first_words_are_a_part_of_it() -> None:
    assert redact("x Zk4trT9wq y", "other Zk4trT9wq") == "x Zk4trT9wq y"
    assert redact("abc abcd", "abc", "abcd") == f"abc {HIDDEN}"  # three characters are none


@pytest.mark.parametrize(
    "text",
    ["API_KEY=Zk4trT9wq", "a\nb: 1\nAPI_KEY=Zk4trT9wq\n",
     "args:\n- --api-key\n- Zk4trT9wq\n- x\n", "- name: TOKEN\n  value: Zk4trT9wq",
     "x: 1\napi_key: 'Zk4trT9wq'\ny: 2\nkey: z\n", '{"token": "Zk4trT9wq"}',
     "first token\nsecond\nTOKEN=Zk4trT9wq", "MY_TOKEN=abcd1234\nOTHER_TOKEN=Zk4trT9wq\n"],
)  # fmt: skip
def test_a_text_tells_its_secrets_wherever_they_stand(text: str) -> None:
    redactor = Redactor()
    learn_from_text(redactor, text)
    assert "Zk4trT9wq" in redactor.values


def test_a_text_without_one_tells_none() -> None:
    redactor = Redactor()
    learn_from_text(redactor, "model: a\nmax_tokens: 4096\n- --max-num-batched-tokens\n- '8192'\n")
    assert redactor.values == set()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("PIN", False), ("CARD_PIN", True), ("K_PIN", False), ("url", False), ("WEBHOOK_URI", True),
        ("DSN", True), ("PROXY_URL", False), ("API_KEY_2", True), ("KEYS", False),
        ("ALLOW_AUTH", False), ("PRIMARY_KEY", False), ("PASS_WORD", True), ("MY_PASS_WORD", True),
        ("MYPASSPHRASE", True), ("SOMEAPIKEY", True), ("MASTER_KEYS", True),
        ("PARTITION_KEYS", False), ("MEMORY_PIN", False), ("CPU_PIN", False), ("NUMA_PIN", False),
        ("webhook", True), ("2", False),
    ],
)  # fmt: skip
def test_names_at_the_border(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize("name", ["-pat", "-PIN", "-sas", "-pass"])
def test_short_options_of_other_programs_are_none(name: str) -> None:
    assert not is_secret_flag(name)


def test_letters_at_the_ends_of_a_secret_are_a_part_of_it() -> None:
    assert redact("a XabcdefghijkX b", "XabcdefghijkX") == f"a {HIDDEN} b"


def test_a_secret_may_hold_a_blank() -> None:
    assert redact("x Zk4rr trT9wq y", "Bearer Zk4rr trT9wq") == f"x {HIDDEN} y"


def test_the_line_behind_the_next_is_not_looked_at() -> None:
    redactor = Redactor()
    learn_from_text(redactor, "- --api-key\n\n- Zk4trT9wq\n")
    assert redactor.values == set()


def test_lines_are_found_beyond_the_first_of_a_word() -> None:
    redactor = Redactor()
    learn_from_text(redactor, "\n" + "\n".join(f"T{n}_TOKEN=Zk4trT9w{n}q" for n in range(9)))
    assert len(redactor.values) == 9


@pytest.mark.parametrize(
    "name", ["VLLM_API_KEYY", "HF_TOKNE", "HF_TOKN", "MY_SECRT", "DB_PASSWORDD", "hfTokken"]
)
def test_a_slip_in_a_telling_name_hides_its_value_too(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["TIME_TAKEN", "MAX_NUM_TOKNES", "TOKENIZER", "MODEL_TOKENIZERS"])
def test_words_near_a_telling_one_hide_nothing(name: str) -> None:
    assert not is_secret_name(name)
