"""llama.cpp's llama-server, and reading of ik_llama.cpp: slots share the context."""

from collections.abc import Mapping
from typing import ClassVar

from advisor.domain.nouns import AdvisorError, Container, Engine, Flag, Launch, Plan
from advisor.domain.patterns import lazy_re
from advisor.engines.adapter import Adapter, HasHead
from advisor.engines.arguments.fields import (
    COUNT,
    DEPTH,
    RANKS,
    Bounds,
    Extras,
    Field,
    Nouns,
    depth,
    drop,
    drop_if,
    integer,
    last,
    switch,
    text,
    whole,
    write_switch,
)
from advisor.engines.arguments.llama_words import (
    DRAFT,
    DRAFT_REPOSITORY,
    IK_SWITCHES,
    IK_VALUES,
    TYPES,
    WORDS,
    draft_flag,
    speculation_words,
    stages,
)
from advisor.engines.arguments.reading import Reader
from advisor.engines.base import VersionMatch
from advisor.engines.versions import later_build, name_build, resolve_build

TYPE, N_MAX, OLD_N_MAX = "--spec-type", "--spec-draft-n-max", "--draft-max"
MOD_N_MAX = "--spec-ngram-mod-n-max"
CTX, SLOTS, UNIFIED = "--ctx-size", "--parallel", "--kv-unified"
FLASH, LAYERS, JINJA = "--flash-attn", "--gpu-layers", "--jinja"
K_TYPE, V_TYPE = "--cache-type-k", "--cache-type-v"
SPLIT = "--tensor-split"
MOST_CARDS = 16  # llama_max_devices; the option takes a number fewer, and even is its default
ALL_LAYERS = 99


class LlamaServerAdapter(Adapter):
    """Reads and writes launches of llama-server; reads those of its forks."""

    name = "llama-server"
    STYLE = "llama"
    PROGRAM = ("llama-server",)
    ENTRY = lazy_re(r"\S*llama-server(\.exe)?|\S*llama\.cpp/server|\S*/llama serve")
    MODEL_FLAGS = ("--model", "--hf-repo", "--model-url")
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "--alias": Field("served_model_name", text),
        "--batch-size": Field("max_num_batched_tokens", integer, bounds=COUNT),
        "--cache-prompt": Field("prefix_caching", switch, write_switch),
        "--host": Field("host", text),
        "--port": Field("port", integer),
    }
    COUNTS: ClassVar[Mapping[str, Bounds]] = {
        **{CTX: (0, COUNT[1]), SLOTS: (-1, COUNT[1])},
        **dict.fromkeys((N_MAX, OLD_N_MAX, MOD_N_MAX), DEPTH),
    }

    def __init__(self, engine: Engine = "llama-server") -> None:
        self._engine: Engine = engine

    @property
    def engine(self) -> Engine:
        """The engine, llama-server or one of its forks."""
        return self._engine

    # ------------------------------------------------------------ versions

    def resolve_version(self, text: str | None) -> VersionMatch:
        """bNNNN, a commit, an image tag, a semantic version -> catalogue interval."""
        if self._engine == "ik_llama.cpp":
            note = "ik_llama.cpp has no catalogue; it is read with llama.cpp's options"
            return VersionMatch(None, False, note)
        return resolve_build(self.catalogue.notes["builds"], text)

    def label(self, version: str | None, asked: str | None = None) -> str:
        """The build that `llama-server --version` prints and its version, or the one asked for."""
        version = name_build(asked, self.resolve_version(asked), version)
        for row in self.catalogue.notes["builds"]:
            if row["id"] == version and "build" in row:
                base = f" ({row['base']})" if "base" in row else ""
                return f"b{row['build']}{base}"
        return version or ""

    def _reader(self, version: VersionMatch) -> Reader:
        if self._engine == "ik_llama.cpp":
            return Reader(self.catalogue, None, None, IK_SWITCHES, IK_VALUES)
        also = later_build(self.catalogue.notes["builds"], version)
        return Reader(self.catalogue, version.version, also)

    def _fork(self, version_text: str | None, container: Container | None) -> str | None:
        image = (container.image or "").lower() if container is not None else ""
        if self._engine == "ik_llama.cpp" or "ik_llama" in image:
            return "ik_llama.cpp"
        return super()._fork(version_text, container)

    # ------------------------------------------------------------ reading

    def _read_meaning(
        self, launch: Launch, nouns: Nouns, extra: Extras, env: dict[str, str], own_mtp: HasHead
    ) -> None:
        self._read_context(nouns, extra)
        file = last(extra, "--hf-file")
        if file is not None and file.endswith(".gguf") and launch.model:
            nouns["model"] = f"{launch.model.partition(':')[0]}:{file}"
            drop(extra, "--hf-file")
        keys, values = last(extra, K_TYPE), last(extra, V_TYPE)
        if keys is not None and keys == values:
            nouns["kv_cache_dtype"] = keys
            drop(extra, K_TYPE, V_TYPE)
        split = last(extra, SPLIT)
        if split is not None and 1 < len(split.split(",")) <= RANKS[1]:
            nouns["tp"] = len(split.split(","))
            if set(split.split(",")) == {"1"}:
                drop(extra, SPLIT)
        drop_if(extra, FLASH, lambda v: v in (None, "on", "1", "true", "enabled"))
        drop_if(extra, LAYERS, lambda v: v in ("all", str(ALL_LAYERS)))
        drop_if(extra, JINJA, lambda v: v is None)
        self._read_speculation(launch, nouns, extra)

    def _read_context(self, nouns: Nouns, extra: Extras) -> None:
        """-c is a total over the slots, unless they share one KV pool (-kvu, slots left open)."""
        slots, total = whole(last(extra, SLOTS)), whole(last(extra, CTX))
        if slots is not None and slots > 0:
            nouns["max_num_seqs"] = slots
            drop(extra, SLOTS)
        if total is None or total <= 0:
            return
        unified = (UNIFIED, None) in extra or slots is None or slots < 1
        share = 1 if unified else int(nouns.get("max_num_seqs", 1))
        if total % share == 0:
            drop(extra, CTX)
        nouns["max_model_len"] = total // share

    def _read_speculation(self, launch: Launch, nouns: Nouns, extra: Extras) -> None:
        written = last(extra, TYPE)
        words, inline = stages(extra) or speculation_words(written)
        draft = last(extra, DRAFT) or last(extra, DRAFT_REPOSITORY)
        if not words and any(name in ("-mtp", "--multi-token-prediction") for name, _ in extra):
            words = ["mtp"]
        if not words and ("--spec-default", None) in extra:
            words = ["ngram-mod"]
        if not words and draft is not None:
            words = ["draft-simple"]
        methods = [
            WORDS.get(word) or ("ngram" if word.startswith("ngram") else None) for word in words
        ]
        drafters = [method for method in methods if method not in (None, "ngram")]
        method = next((m for m in (*drafters, *methods) if m), None)
        if method is None:
            counts = [depth(last(extra, name)) for name in (N_MAX, OLD_N_MAX)]
            # a count without a type drafts nothing, but it is what the file asks for
            if k := next((count for count in counts if count), None):
                nouns["k"] = k
            return
        nouns["method"] = method
        if len(words) == 1 and written is not None and not inline and TYPES.get(method) == words[0]:
            drop(extra, TYPE)
        if draft is not None:
            nouns["draft_model"] = draft
            drop(extra, DRAFT, DRAFT_REPOSITORY)
        nouns["k"] = self._read_k(launch.engine_version, method, inline, extra)

    def _read_k(
        self, version: str | None, method: str, inline: dict[str, str], extra: Extras
    ) -> int:
        if method == "ngram":
            name = MOD_N_MAX if self.catalogue.option(MOD_N_MAX, version) is not None else OLD_N_MAX
            k = depth(last(extra, name))
            if k is not None:
                drop(extra, name)
            return k if k is not None else 0
        k = depth(inline.get("n_max")) if inline else None
        for name in (N_MAX, OLD_N_MAX):
            given = depth(last(extra, name))
            if k is None and given is not None:
                k = given
                if name == N_MAX or version is not None:
                    drop(extra, name)
        if k is not None:
            return k
        default = self.catalogue.behaviour("draft_n_max_default", version)
        return int(default) if default is not None else 0

    # ------------------------------------------------------------ writing

    def to_launch(self, plan: Plan) -> Launch:
        """Return the launch of a plan. Raises AdvisorError for ik_llama.cpp, which is only read."""
        if plan.engine == "ik_llama.cpp":
            why = "launches for ik_llama.cpp are read but not written: ask for llama-server"
            raise AdvisorError(why)
        return super().to_launch(plan)

    def _write_model(self, model: str) -> tuple[Flag, ...]:
        """A path is -m; a repository, with or without :file or :quant, is -hf."""
        bare = model.endswith(".gguf") and ":" not in model
        if bare or model.startswith(("/", "./", "../", "~")):
            return (Flag(name="--model", raw="-m", value=model),)
        if model.startswith(("http://", "https://")):
            return (Flag(name="--model-url", raw="-mu", value=model),)
        name, _, file = model.partition(":")
        if not file.endswith(".gguf"):
            return (Flag(name="--hf-repo", raw="-hf", value=model),)
        whole = Flag(name="--hf-file", raw="-hff", value=file)
        return (Flag(name="--hf-repo", raw="-hf", value=name), whole)

    def _write_meaning(self, plan: Plan, version: str | None, env: dict[str, str]) -> Extras:
        given = {name for name, _ in plan.extra}
        rows: Extras = []
        if LAYERS not in given:
            rows.append((LAYERS, str(ALL_LAYERS)))
        if plan.tp > 1 and plan.tp != MOST_CARDS and SPLIT not in given:
            rows.append((SPLIT, ",".join("1" * plan.tp)))
        if plan.max_model_len is not None and CTX not in given:
            shared = (UNIFIED, None) in plan.extra or plan.max_num_seqs is None
            rows.append((CTX, str(plan.max_model_len * (1 if shared else plan.max_num_seqs or 1))))
        if plan.max_num_seqs is not None and SLOTS not in given:
            rows.append((SLOTS, str(plan.max_num_seqs)))
        if FLASH not in given:
            option = self.catalogue.option(FLASH, version)
            rows.append((FLASH, "on" if option is not None and option.takes_value else None))
        if plan.kv_cache_dtype is not None:
            rows += [(K_TYPE, plan.kv_cache_dtype), (V_TYPE, plan.kv_cache_dtype)]
        if JINJA not in given:
            rows.append((JINJA, None))
        speculates = plan.method != "none"
        return rows + (self._write_speculation(plan, version, given) if speculates else [])

    def _write_speculation(self, plan: Plan, version: str | None, given: set[str]) -> Extras:
        if plan.k_schedule:
            raise AdvisorError(
                "llama-server takes no k schedule per batch size: vllm does from 0.24.0"
            )
        word = TYPES.get(plan.method, f"draft-{plan.method}")
        types = self.spec_types(version)
        rows: Extras = []
        if word in types:
            if TYPE not in given:
                rows.append((TYPE, word))
        # older builds draft with any -md
        elif not (plan.method == "draft_model" and plan.draft_model):
            raise AdvisorError(
                f"llama-server {version} has no path for the method '{plan.method}': "
                f"{self._type_since(word)}"
            )
        if plan.draft_model is not None:
            rows.append((draft_flag(plan.draft_model), plan.draft_model))
        name = MOD_N_MAX if plan.method == "ngram" else N_MAX
        if self.catalogue.option(name, version) is None:
            name = OLD_N_MAX
        if plan.k and name not in given:
            rows.append((name, str(plan.k)))
        return rows

    def spec_types(self, version: str | None) -> tuple[str, ...]:
        """Values of --spec-type at a build (empty before it existed)."""
        option = self.catalogue.option(TYPE, version)
        return (option.choices or ()) if option is not None else ()

    def _type_since(self, word: str) -> str:
        rows = self.catalogue.notes["builds"]
        since = next((r["from"] for r in rows if word in self.spec_types(str(r["id"]))), None)
        return f"'{word}' is known from b{since}" if since else f"no catalogued build has '{word}'"
