"""Which words of a command are programs: engines, shells, those that only name an engine."""

import re
from functools import lru_cache

from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import nearest_word
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped

RUNTIMES = frozenset(("docker", "podman", "nerdctl", "docker-run", "finch"))
SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ash", "ksh", "busybox"))
# Programs whose arguments may name an engine without starting it.
_BYSTANDER_NAMES = """
echo printf pip pip3 pipx apt apt-get dnf yum pacman brew conda-install grep egrep rg sed awk cat
less head tail tee ls cp mv rm mkdir chmod chown ln find which whereis type kill killall pkill pgrep
ps systemctl service journalctl curl wget http git make cmake ninja cd pushd source . hf
huggingface-cli modelscope test [ [[ read export alias unalias trap wait sleep docker-compose
llama-cli llama-bench llama-quantize llama-gguf-split evalscope lm_eval guidellm aiperf genai-perf
vllm-bench ollama lms return exit logger notify-send cargo npm go strings file stat du df watch man
help where taskkill tasklist get-command test-path join-path split-path resolve-path get-item
get-childitem get-process stop-process get-content select-string remove-item copy-item new-item
"""
CMDLET = lazy_re(r"(?!Start-Process|Invoke-)[A-Z][a-z]+-[A-Z][A-Za-z]+")  # of PowerShell
BYSTANDERS = frozenset(_BYSTANDER_NAMES.split())
# they name pods and containers; what they start stands behind `--`
CLUSTER = frozenset(("kubectl", "oc", "k9s", "stern", "helm", "k3s", "microk8s", "nomad"))
ENGINE_TEXT = lazy_re(
    r"vllm(?:@[\w.]+)?\s+serve|vllm\.entrypoints|sglang[\w.]*launch_server|sglang\s+serve"
    r"|llama[-_]server|(docker|podman|nerdctl)\s+run"
    r"|/server\s+-m|llama\s+(serve|server)\b|api_server\.py"
)
_MODULES = (
    (lazy_re(r"^vllm\.entrypoints\.(openai\.)?api_server$|^dynamo\.vllm(\.main)?$"), "vllm"),
    (lazy_re(r"^vllm(\.entrypoints\.cli\.main)?$"), "vllm-cli"),
    (lazy_re(r"^sglang(\.srt)?\.(launch_server|server|entrypoints\.http_server)$"), "sglang"),
    (lazy_re(r"^sglang(\.cli\.main)?$"), "sglang-cli"),
    (lazy_re(r"^sglang_router\.launch_server$"), "sglang"),
    (lazy_re(r"^llama_cpp\.server$"), "llama-server"),
    (lazy_re(r"^dynamo\.sglang(\.main)?$"), "sglang"),
)
MODULES = ("vllm.entrypoints.openai.api_server", "sglang.launch_server")
_PYTHON = lazy_re(r"^(python[\d.]*|pypy3?)$")
OTHER_ENGINES = lazy_re(
    r"\b(ollama\s+(?:serve|run)|mlx_lm\.server|mlx_vlm\.server|lms\s+server|exllamav[23]"
    r"|tabbyapi|koboldcpp|lmdeploy\s+serve"
    r"|text-generation-launcher|trtllm-serve)"
)

# a script or a file that is named after the server: llama-server-api.py, llama-server.log
_NAMESAKE = lazy_re(r"\.(?:sh|py|ps1|bat|cmd|js|service|log|json|ya?ml|conf|ini|md|txt|pid|sock)$")


@lru_cache(maxsize=1024)
def base_name(text: str) -> str:
    """The program that a word names, without folder and `.exe`; of a variable its own name."""
    if text.startswith(HOLE_OPEN) and text.endswith(HOLE_CLOSE):
        text = text[1:-1].lower().replace("_", "-")
        known = (one for one in ("llama-server", "sglang", "vllm", "python") if one in text)
        return next(known, "python" if text == "sys.executable" else text)
    name = re.split(r"[/\\]", text)[-1].lower()
    if name.startswith(("vllm@", "sglang@")):  # uvx vllm@0.28.0
        name = name.partition("@")[0]
    return name.removesuffix(".exe")


_RUNNERS = "uv uvx poetry pixi pipenv hatch rye conda mamba srun nice numactl taskset stdbuf setsid"
LAUNCHERS = frozenset(_RUNNERS.split())  # what they run needs no option to be told from a mention
_SIGNS = "-c --ctx-size -ngl --n-gpu-layers -fa --flash-attn -np --jinja"
_LLAMA_SIGNS = frozenset(_SIGNS.split())


def engine_start(words: list[Mapped], i: int) -> tuple[str, int] | None:
    """Engine and index of its first argument, if the command at `i` starts one."""
    name = base_name(words[i].text)
    following = words[i + 1].text if i + 1 < len(words) else ""
    if _PYTHON.match(name):
        return _python_start(words, i)
    if name in ("vllm", "sglang", "vllm-rs"):
        served = following == "serve" or likely_serve(following)
        if name == "vllm" and words[max(i - 1, 0)].text[:1] != "-" and _BARE.match(following):
            return "vllm", i + 1
        return (name.removesuffix("-rs"), i + 2) if served else None
    if name in ("vllm-serve", "vllm_serve"):
        return "vllm", i + 1
    if following in ("-and", "-or", "-eq", "-ne", "="):
        return None  # PowerShell compares a program's name, Nix sets one
    if name.startswith(("llama-server", "llama_server")) and not _NAMESAKE.search(name):
        return _llama(words[i]), i + 1
    if name == "llama" and following in ("serve", "server"):
        return "llama-server", i + 2
    signs = following == "--model" and any(word.text in _LLAMA_SIGNS for word in words[i + 2 :])
    if name == "server" and (
        signs or following in ("-m", "-hf") or "llama" in words[i].text.lower()
    ):
        return _llama(words[i]), i + 1
    return _script(words[i].text, i)


# options of the server that `vllm` itself does not have
_BARE = lazy_re(
    r"--(?:model|served-model-name|tensor-parallel-size|max-model-len|gpu-memory-utilization)(?:=|$)"
)


def likely_serve(word: str) -> bool:
    """Whether a word is `serve` misspelt: a letter more, less, or out of place."""
    return word in ("server", "serv", "serves", "sevre", "srve", "sereve", "seve", "Serve")


def likely_module(module: str) -> str | None:
    """The server's module that a misspelt one was to be."""
    near = module.startswith(("vllm.", "sglang.", "vlm.", "sglan.")) and module not in MODULES
    return nearest_word(module, MODULES, "module") if near else None


def _script(text: str, i: int) -> tuple[str, int] | None:
    if text.endswith(("sglang/launch_server.py", "sglang.launch_server")):
        return "sglang", i + 1
    if text.endswith(("openai/api_server.py", "vllm.entrypoints.openai.api_server")):
        return "vllm", i + 1
    return None


def _llama(word: Mapped) -> str:
    return "ik_llama.cpp" if re.search(r"ik[-_]llama", word.text.lower()) else "llama-server"


def _python_start(words: list[Mapped], i: int) -> tuple[str, int] | None:
    j = i + 1
    while j < len(words) and words[j].text.startswith("-") and words[j].text != "-m":
        if words[j].text == "-c":
            return None
        j += 2 if words[j].text in ("-W", "-X") else 1
    if j >= len(words):
        return None
    if words[j].text != "-m":
        return _script(words[j].text, j)
    module = words[j + 1].text.replace("-", "_") if j + 1 < len(words) else ""
    for pattern, engine in _MODULES:
        if pattern.match(module):
            if not engine.endswith("-cli"):
                return engine, j + 2
            serve = j + 2 < len(words) and words[j + 2].text == "serve"
            return (engine.removesuffix("-cli"), j + 3) if serve else None
    if (meant := likely_module(module)) is not None:
        return meant.partition(".")[0], j + 2
    if module.startswith("torch.distributed"):
        return next(
            (start for k in range(j + 2, len(words)) if (start := engine_start(words, k))), None
        )
    return None
