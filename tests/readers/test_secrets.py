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
from tests.tables import words

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
# at the border, and with a slip in a telling word
SECRET_NAMES_NEAR = words(
    """CARD_PIN WEBHOOK_URI DSN API_KEY_2 PASS_WORD MY_PASS_WORD MYPASSPHRASE SOMEAPIKEY
MASTER_KEYS webhook VLLM_API_KEYY HF_TOKNE HF_TOKN MY_SECRT DB_PASSWORDD hfTokken"""
)
OPEN_NAMES_NEAR = words(
    """PIN K_PIN url PROXY_URL KEYS ALLOW_AUTH PRIMARY_KEY PARTITION_KEYS MEMORY_PIN CPU_PIN
NUMA_PIN 2 TIME_TAKEN MAX_NUM_TOKNES TOKENIZER MODEL_TOKENIZERS"""
)


@pytest.mark.parametrize("name", [*SECRET_NAMES, *SECRET_NAMES_NEAR])
def test_a_telling_name_is_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", [*OPEN_NAMES, *OPEN_NAMES_NEAR])
def test_other_names_are_none(name: str) -> None:
    assert not is_secret_name(name)


def test_of_the_engines_options_only_keys_and_tokens_of_access_are_secret() -> None:
    secret = {
        flag
        for engine in ("vllm", "sglang", "llama-server")
        for flag in engines.get(engine).catalogue.names()
        if is_secret_flag(flag)
    }
    assert secret <= {*words("--api-key --hf-token -hft --admin-api-key --ssl-keyfile-password")}
    assert {"--api-key", "--hf-token"} <= secret


SHOWN = ("text", "json", "sarif", "github")
VALUE = "Zk4trT9wq"  # no known form: its name or place alone tells it
WORD = "aB3dE6gH9jK2mN5pZk4t"
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
IMAGE = "image: vllm/vllm-openai:v0.25.1"
ARGS = "[--model, m, --max-num-sqes, '4']"
SERVICE = f"services:\n  a:\n    {IMAGE}\n"
PLACES += [
    f"{SERVICE}    command: {ARGS}\n    environment:\n      DB_PASSPHRASE: {VALUE}\n",
    f"{SERVICE}    command: {ARGS}\n    environment: ['JWT={VALUE}']\n",
    f"{SERVICE}    command:\n      - --max-num-sqes\n      - '4'\n      - --api-key\n"
    f"      - {VALUE}\n",
    f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - {IMAGE}\n      args: {ARGS}\n"
    f"      env:\n        - name: CREDS\n          value: {VALUE}\n",
]
# a part of one, or a stray word that is one
PLACES += [
    "A=Zk4trT9wq\nB=Wm7xLp2vB\nvllm serve m --api-key $A$B --max-num-sqes 4\n",
    "A=Zk4trT9wq\nexport B='Wm7xLp2vB'\nvllm serve m --max-num-sqes 4 --api-key=${A}-${B}\n",
    'C=Zk4trT9wq\nA=$C\nB=Wm7xLp2vB\nAPI_KEY="$A$B"\nvllm serve m --max-num-sqes 4\n',
    f"vllm serve m {WORD} --max-num-sqes 4\n",
    f"vllm serve m --max-num-sqes 4 {WORD}\n",
]


@pytest.mark.parametrize("text", PLACES, ids=range(len(PLACES)))
def test_no_output_shows_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.yaml" if "\n  " in text else "a.sh")
    path.write_text(text)
    for more in (*(["--format", form] for form in SHOWN), ["--diff", "--unsafe-fixes"]):
        told = run("validate", str(path), *more)
        assert "max-num-s" in told.out, told
        assert not re.search(rf"({VALUE}|Wm7xLp2vB|{WORD})(?!x)", told.out + told.err), more


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
def test_what_the_library_takes_for_a_secret_goes(name: str, pattern: re.Pattern[str]) -> None:
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


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [  # a short one goes only where it stands alone
        ("pass word-pass pass-x xpass (pass)", ["pass"], "? word-pass pass-x xpass (?)"),
        ("a123456789b", ["123456789"], "a123456789b"),  # nine characters
        ("aabcdefghijb", ["abcdefghij"], "a?b"),  # ten
        ("azlmnopqrst", ["zlmnopqrst", "azlmnopqrst"], "?"),  # the longer of two goes first
        ("abcdefghijklm", ["abcdefghij", "abcdefghijklm"], "?"),
        # a scheme and quotes are no part of it, other first words and letters at its ends are
        *(("x Zk4trT9wq y", [f"{head}Zk4trT9wq{tail}"], "x ? y")
          for head, tail in (("Bearer ", ""), ("basic ", ""), (" '", "' "), ("TOKEN ", ""))),
        ("x Zk4trT9wq y", ["other Zk4trT9wq"], "x Zk4trT9wq y"),
        ("a XabcdefghijkX b", ["XabcdefghijkX"], "a ? b"),
        ("x Zk4rr trT9wq y", ["Bearer Zk4rr trT9wq"], "x ? y"),  # it may hold a blank
        ("abc abcd", ["abc", "abcd"], "abc ?"),  # three characters are none
    ],
)  # fmt: skip
def test_what_of_a_text_is_hidden(text: str, secrets: list[str], shown: str) -> None:
    redactor = Redactor()
    for one in secrets:
        redactor.learn(one)
    assert redactor.clean(text) == shown.replace("?", HIDDEN)


SECRETS_IN_TEXTS = {
    # a word after a telling one in prose is none
    "bytes per token = more context, and pass: gates passed\n": "",
    "token = await load_token(settings)\n": "",
    'call(auth=auth, "tokens": tokens, pass: vLLM import)\n': "",
    "model: a\nmax_tokens: 4096\n- --max-num-batched-tokens\n- '8192'\n": "",
    "- --api-key\n\n- Zk4trT9wq\n": "",  # the line behind the next is not looked at
    # one that is given as a value is one
    "api_key: letmein\n": "letmein",
    "  - password: letmein  # mine\n": "letmein",
    "API_KEY=letmein\n": "letmein",
    'say(password = "letmein")\n': "letmein",
    "vllm serve m --api-key letmein\n": "letmein",
    "API_KEY=Zk4trT9wq": "Zk4trT9wq",
    "a\nb: 1\nAPI_KEY=Zk4trT9wq\n": "Zk4trT9wq",
    "args:\n- --api-key\n- Zk4trT9wq\n- x\n": "Zk4trT9wq",
    "- name: TOKEN\n  value: Zk4trT9wq": "Zk4trT9wq",
    "x: 1\napi_key: 'Zk4trT9wq'\ny: 2\nkey: z\n": "Zk4trT9wq",
    '{"token": "Zk4trT9wq"}': "Zk4trT9wq",
    "first token\nsecond\nTOKEN=Zk4trT9wq": "Zk4trT9wq",
    "MY_TOKEN=abcd1234\nOTHER_TOKEN=Zk4trT9wq\n": "abcd1234 Zk4trT9wq",
    # lines are found beyond the first of a word
    "\n" + "\n".join(f"T{n}_TOKEN=Zk4trT9w{n}q" for n in range(9)): " ".join(
        f"Zk4trT9w{n}q" for n in range(9)
    ),
}


@pytest.mark.parametrize("text", SECRETS_IN_TEXTS)
def test_a_text_tells_its_secrets_wherever_they_stand(text: str) -> None:
    redactor = Redactor()
    learn_from_text(redactor, text)
    assert redactor.values == {*SECRETS_IN_TEXTS[text].split()}


@pytest.mark.parametrize("name", ["-pat", "-PIN", "-sas", "-pass"])
def test_short_options_of_other_programs_are_none(name: str) -> None:
    assert not is_secret_flag(name)
