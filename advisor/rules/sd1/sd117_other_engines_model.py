import re
from collections.abc import Container, Iterator
from typing import Any

from advisor.domain.nouns import Case, Fix, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.knowledge import store as knowledge
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flag, is_hybrid, replace_fix
from advisor.rules.kit.fixes import set_fix

MODEL_FLAGS = ("--model", "--model-path", "--hf-repo")
HF_WORDS = ("-fp8", "-awq", "-gptq", "-nvfp4", "-int4", "autoround")
# ends like the name of a GGUF file, without the ending
_CUT = lazy_re(r"/[^/]*[-_.](?:ud-)?(?:iq|q)\d(?:_(?:k|\d|nl|xxs|xs|s|m|l|xl))*$")


_REPOSITORY = lazy_re(r"[\w.-]+/[\w.-]+-gguf(?::[\w.-]+)?")
_ADDRESS = lazy_re(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)/?(?:tree/main/?)?"
)
_ENDING = lazy_re(r"(.*\.)(guff|ggfu|gguuf|ggfu|gufg|gguf[f.]|ggf|gguf_)", re.I)


def no_name(case: Case, place: Flag | None) -> Hit | None:
    """Return a hit for an address in the place of a repository, a file with a misspelt ending, a
    known model without its owner.
    """
    given = (place.value if place is not None else None) or case.launch.model or ""
    meant = said = None
    stops: Severity | None = None
    if found := _ADDRESS.fullmatch(given):
        meant, said = found[1], f"{given} is an address: a model is named OWNER/NAME"
    elif case.plan.engine in GGUF_ENGINES and (found := _ENDING.fullmatch(given)):
        meant, said = f"{found[1]}gguf", f"{given} names no GGUF: its ending is misspelt"
    elif case.plan.engine not in GGUF_ENGINES and "/" not in given and "." in given:
        model = case.facts.model
        whole = [
            one.repository
            for one in (model.checkpoints if model is not None else ())
            if one.repository and one.repository.endswith(f"/{given}")
        ]
        if len(whole) == 1:
            meant = whole[0]
            said = f"{given} is a folder here, or nothing: the repository is {meant}"
            container = case.launch.container
            inside = container is not None and container.image and container.kind != "comment"
            stops = None if inside else "info"
    if said is None or meant is None:
        return None
    what = f"Write {meant}."
    return Hit(
        said,
        flag=place,
        line=case.launch.line if place is None else 0,
        severity=stops,
        fix=set_fix(case, place, meant, what) if place is not None else Fix(text=what),
    )


def repositories() -> Container[str]:
    """The repositories of known checkpoints, in small letters."""
    known: dict[str, Any] = knowledge.index()["repositories"]
    return known


@rule(
    severity="error",
    sources=(
        "vllm-project/recipes Qwen3.6",
        "ggml-org/llama.cpp README",
        "sgl-project/sgl-cookbook Qwen3.6",
    ),
)
def other_engines_model(case: Case) -> Iterator[Hit]:
    """A model file of another engine: a GGUF under vLLM or SGLang, or a safetensors repository
    under llama-server.

    Why: llama-server loads GGUF files only; vLLM and SGLang do not load the Qwen hybrids, and no
    MTP head, from GGUF.
    Bad: llama-server -m Qwen/Qwen3.6-35B-A3B-FP8
    Good: llama-server -hf unsloth/Qwen3.6-35B-A3B-MTP-GGUF:Q4_K_M
    """
    name = (case.plan.model or "").lower()
    place = flag(case, *MODEL_FLAGS)
    if not name or (place is not None and place.unresolved) or "$" in name:
        return
    if (hit := no_name(case, place)) is not None:
        yield hit
        return
    if case.plan.engine in GGUF_ENGINES:
        if place is None and not case.launch.emitted:
            return  # named elsewhere in the file
        bare = name.split(":")[0]
        if (
            not bare.endswith(".gguf")
            and "gguf" not in bare
            and (
                any(word in bare for word in HF_WORDS)
                or (place is not None and place.name == "--hf-repo" and bare in repositories())
            )
        ):
            yield Hit(
                f"llama-server loads GGUF files; {case.plan.model} is a repository of safetensors "
                f"for vLLM or SGLang",
                flag=place,
                fix=Fix(text="Give a GGUF file with -m, or a GGUF repository with -hf."),
            )
        elif place is not None and place.name == "--model" and _REPOSITORY.fullmatch(bare):
            what = f"Write -hf {place.value}."
            yield Hit(
                f"-m takes a file, and {case.plan.model} is a repository: -hf takes one",
                flag=place,
                fix=replace_fix(case, place, f"-hf {place.value}", what, safe=False),
            )
        elif place is not None and place.name == "--model" and _CUT.search(bare):
            yield Hit(
                f"{case.plan.model} names no file: a GGUF ends in .gguf",
                flag=place,
                severity="warning",
                fix=set_fix(case, place, f"{place.value}.gguf", "Write .gguf behind it."),
            )
    elif name.endswith(".gguf") or name.endswith("-gguf") or "-gguf:" in name:
        speculates = case.plan.method != "none"
        if not speculates and is_hybrid(case) is not True:
            return  # plain architectures load
        yield Hit(
            f"{case.plan.model} is a GGUF: {case.plan.engine} does not load the Qwen hybrids or "
            f"an MTP head from one",
            flag=place,
            severity="error" if speculates else "warning",
            fix=Fix(
                text="Give the safetensors repository, for example Qwen/Qwen3.6-35B-A3B-FP8, or "
                "use llama-server."
            ),
        )
