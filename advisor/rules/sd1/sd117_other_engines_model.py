from functools import cache, lru_cache
from typing import Any

from advisor.domain.nouns import Case, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import letters_apart, nearest_word
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.case import is_gguf, is_hybrid
from advisor.rules.kit.fixes import set_fix, span_fix
from advisor.rules.kit.values import word_apart

MODEL_FLAGS = ("--model", "--model-path", "--hf-repo")
HF_WORDS = ("-fp8", "-awq", "-gptq", "-nvfp4", "-int4", "autoround")
# ends like the name of a GGUF file, without the ending
_SIGNS = lazy_re(r"[-_.]+")
_CUT = lazy_re(r"/[^/]*[-_.](?:ud-)?(?:iq|q)\d(?:_(?:k|\d|nl|xxs|xs|s|m|l|xl))*$")
_REPOSITORY = lazy_re(r"[\w.-]+/[\w.-]+-gguf(?::[\w.-]+)?")
_ADDRESS = lazy_re(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)/?(?:tree/main/?)?"
)
_TAGGED = lazy_re(r"([\w-][\w.-]*)/([\w.-]+?)(:[\w-]+)?")
_OTHERS = (".safetensors", ".bin.index.json", ".pt", ".pth", ".onnx")
QUANTISATIONS = tuple(table("compatibility")["gguf_quantisations"]["value"].split())
# names under which models with projectors are published; a fine-tune keeps them
_MAKERS = lazy_re(r"qwen|gemma|stral|llama-?4|kimi|glm-[45]|internvl|minicpm|smolvlm|lfm2")


def no_name(case: Case, place: Flag | None) -> Hit | None:
    """The hit of an address, or of a name that is nearly known."""
    given = (place.value if place is not None else None) or case.launch.model or ""
    stops: Severity | None = None
    if found := _ADDRESS.fullmatch(given):
        meant, text = found[1], f"{given} is an address: a model is named OWNER/NAME"
    elif is_gguf(case):
        return None
    elif (owner := near_owner(given)) is not None:
        meant, stops = f"{owner}/{given.partition('/')[2]}", "warning"
        text = f"{given} is not published under that name: {meant} is"
    elif (near := near_repository(given)) is not None:
        meant, text = near, f"{given} is not published under that name: {near} is"
    else:
        return None
    what = f"Write {meant}."
    return Hit(
        text,
        flag=place,
        line=case.launch.line if place is None else 0,
        severity=stops,
        fix=set_fix(case, place, meant, what) if place is not None else what,
    )


def no_gguf(case: Case) -> Hit | None:
    """The hit of what is no GGUF, or not in the form that its option takes."""
    repo, model = case.certain("--hf-repo"), case.flag("--model")
    given = (repo.value if repo is not None else None) or ""
    if repo is not None and (found := _TAGGED.fullmatch(given)) is not None:
        named = case.flag("--hf-file") is not None or "gguf" in given.lower()
        if not named and found[1].lower() in owners():
            meant = f"{gguf_owner(found[2]) or found[1]}/{found[2]}-GGUF{found[3] or ''}"
            return Hit(
                f"{found[1]} keeps safetensors in {found[2]}: GGUF files are in repositories that "
                "say so",
                flag=repo,
                fix=set_fix(case, repo, meant, f"Write {meant} if there is one."),
            )
        if found[3] and (near := quantisation(found[3][1:])) is not None:
            return Hit(
                f"there is no quantisation {found[3][1:]}: {near} is meant",
                flag=repo,
                fix=set_fix(case, repo, f"{given[: -len(found[3])]}:{near}", f"Write {near}."),
            )
    if model is not None and (model.value or "").endswith(_OTHERS):
        return Hit(f"{model.value} is no GGUF", flag=model, fix="Give a GGUF file.")
    return beside_model(case)


@lru_cache(maxsize=256)
def near_owner(given: str) -> str | None:
    """The owner of a known repository whose name is longer: MiniMaxAI."""
    owner, slash, name = given.partition("/")
    if not slash or "/" in name or len(owner) < 4 or given.lower() in repositories():
        return None
    model = knowledge.llm_from_text(given)
    for one in model.checkpoints if model is not None else ():
        theirs, _, same = (one.repository or "").partition("/")
        if same.lower() != name.lower():
            continue
        ours, whole = owner.lower(), theirs.lower()
        if ours != whole and (whole.startswith(ours) or ours.startswith(whole)):
            return theirs
    return None


@lru_cache(maxsize=256)
def near_repository(given: str) -> str | None:
    """The known repository of the same owner whose name differs by signs alone, or by a letter or
    two in a long word of letters: Qwen3-32B-Instuct is none, GLM-4.5V is a model of its own.
    """
    owner, slash, name = given.lower().partition("/")
    if not slash or "/" in name or given.lower() in repositories():
        return None
    words = _SIGNS.split(name)
    for one, (model, _) in repositories().items():
        theirs, _, same = one.partition("/")
        if theirs != owner:
            continue
        pair = word_apart(words, _SIGNS.split(same))
        letters = pair is not None and all(one.isalpha() and len(one) > 4 for one in pair)
        near = letters and pair is not None and letters_apart(*pair, 2) <= 2
        if near or "".join(words) == _SIGNS.sub("", same):
            whole = knowledge.llm(model).checkpoints
            return next((c.repository for c in whole if (c.repository or "").lower() == one), None)
    return None


@cache
def gguf_owner(name: str) -> str | None:
    """Who is known to publish GGUF files under the name of a model."""
    ending = f"/{name}-gguf".lower()
    return next((one.partition("/")[0] for one in repositories() if one.endswith(ending)), None)


def beside_model(case: Case) -> Hit | None:
    """A draft or a projector that is no file, or not of this model."""
    for name in ("--spec-draft-model", "--mmproj"):
        cut = case.certain(name)
        if cut is not None and _CUT.search((cut.value or "").lower()):
            return Hit(
                f"{cut.raw} {cut.value} names no file: a GGUF ends in .gguf",
                flag=cut,
                fix=set_fix(case, cut, f"{cut.value}.gguf", "Write .gguf after it."),
            )
    file = case.value("--mmproj") or ""
    names = [(text or "").rsplit("/", 1)[-1] for text in (case.plan.model, file)]
    makers = [set(_MAKERS.findall(name.lower())) for name in names]
    model, other = map(knowledge.llm_from_text, names)
    widths = {one and one.hidden for one in (model, other)}
    if (None in widths or len(widths) < 2) and (not all(makers) or makers[0] & makers[1]):
        return None
    swap = (other.name, model.name) if model and other else ("", "")
    return Hit(
        f"--mmproj names a projector of another model than {names[0]}",
        flag=case.flag("--mmproj"),
        fix=set_fix(
            case,
            "--mmproj" if model and other else None,
            file.replace(*swap),
            "Give the model's own projector.",
        ),
        sources=("ggml-org/llama.cpp tools/mtmd/mtmd.cpp (mismatch between text model)",),
    )


@lru_cache(maxsize=256)
def quantisation(tag: str) -> str | None:
    """The quantisation of llama.cpp that a tag is a slip of; None for one that may be right."""
    lead = "UD-" if tag.upper().startswith("UD-") else ""
    plain = tag[len(lead) :].upper()
    near = nearest_word(plain, QUANTISATIONS, "quantisation")
    larger = lead and plain.removesuffix("_XL") in QUANTISATIONS  # unsloth's UD-IQ4_NL_XL
    return lead + near if near and plain not in QUANTISATIONS and not larger else None


@cache
def owners() -> frozenset[str]:
    """Owners of repositories of safetensors, who keep GGUF files in others that say so."""
    return frozenset(name.partition("/")[0] for name in repositories() if "gguf" not in name)


def repositories() -> dict[str, Any]:
    """The repositories of known checkpoints, in small letters."""
    known: dict[str, Any] = knowledge.index()["repositories"]
    return known


@rule("SD117", "error")
def other_engines_model(case: Case) -> Hits:
    """A model file of another engine: a GGUF under vLLM, safetensors under llama-server.

    Why: llama-server loads GGUF alone; vLLM and SGLang load no Qwen hybrid and no MTP head from it.
    Bad: llama-server -m Qwen/Qwen3.6-35B-A3B-FP8
    Good: llama-server -hf unsloth/Qwen3.6-35B-A3B-MTP-GGUF:Q4_K_M
    Sources: vllm-project/recipes Qwen3.6; ggml-org/llama.cpp README; sgl-project/sgl-cookbook
        Qwen3.6
    """
    place, name = case.flag(*MODEL_FLAGS), (case.plan.model or "").lower()
    if not name or (place is not None and place.unresolved) or "$" in name:
        return
    if hit := no_name(case, place) or (no_gguf(case) if is_gguf(case) else None):
        yield hit
    elif is_gguf(case) and place is not None:
        yield from no_file(case, place, name.split(":")[0])
    elif not is_gguf(case) and (name.endswith((".gguf", "-gguf")) or "-gguf:" in name):
        speculates = case.plan.method != "none"
        if speculates or is_hybrid(case):  # plain architectures load
            yield Hit(
                f"{case.plan.model} is a GGUF: {case.plan.engine} does not load the Qwen hybrids "
                "or an MTP head from one",
                flag=place,
                severity="error" if speculates else "warning",
                fix="Give the safetensors repository, for example Qwen/Qwen3.6-35B-A3B-FP8, or "
                "use llama-server.",
            )


def no_file(case: Case, place: Flag, bare: str) -> Hits:
    """A repository where llama-server takes a file, or a file without its ending."""
    option, model = place.name, case.plan.model
    listed = option == "--hf-repo" and bare in repositories()
    if "gguf" not in bare and (listed or any(word in bare for word in HF_WORDS)):
        yield Hit(
            f"llama-server loads GGUF files; {model} is a repository of safetensors for vLLM or "
            "SGLang",
            flag=place,
            fix="Give a GGUF file with -m, or a GGUF repository with -hf.",
        )
    elif option == "--model" and _REPOSITORY.fullmatch(bare):
        yield Hit(
            f"-m takes a file, and {model} is a repository: -hf takes one",
            flag=place,
            fix=span_fix(case, place.span, f"-hf {place.value}", f"Write -hf {place.value}."),
        )
    elif option == "--model" and _CUT.search(bare):
        yield Hit(
            f"{model} names no file: a GGUF ends in .gguf",
            flag=place,
            severity="warning",
            fix=set_fix(case, place, f"{place.value}.gguf", "Write .gguf after it."),
        )
