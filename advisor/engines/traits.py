"""What sets one engine apart from another, by name of the trait."""

from typing import Literal, cast

from advisor.domain.nouns import Engine
from advisor.domain.records import NamedTuple

ALL_ADDRESSES = "0.0.0.0"  # what a server listens on to be reached from anywhere
LOOPBACK = "127.0.0.1"  # and to be reached from its own machine alone
# Variables that hold the key of a server that is asked, as vLLM's own clients read them; the first
# that is set counts.
API_KEYS = ("VLLM_API_KEY", "OPENAI_API_KEY")


class EngineTraits(NamedTuple):
    """One engine's habits. Sources: its own documentation and the parsers of its releases."""

    name: Engine
    default_port: int  # where it listens unless told
    pool: Literal["paged", "slots"]  # KV in pages that requests share, or a fixed part per slot
    k_range: tuple[int, ...]  # draft tokens to try; beyond, published sweeps only lose
    cache_types: tuple[str, ...]  # KV data types below 16 bit, the usual first
    port: int = 8000  # where the launches that we write listen
    health: str = "/health"  # path that answers once the model is loaded
    listens_locally: bool = False  # on 127.0.0.1 alone unless --host says otherwise
    states_in_pool: bool = False  # recurrent states live in pages of the KV pool
    replicas: bool = False  # tensor parallel ranks, replicas of them; else layers are spread
    replicas_wait: bool = False  # those of a mixture of experts wait for each other every step
    gguf: bool = False  # loads GGUF files
    memory_share: bool = False  # takes a share of the accelerator's memory as an option
    outside_share: bool = False  # activations, graphs and drafter come on top of that share
    running: tuple[int, int] | None = (
        None  # requests at once unless told: without, with speculation
    )
    quantizes_at_load: tuple[str, ...] = ()  # made of 16 bit weights while loading
    runs_repository_code: bool = False  # asks for consent before it runs code of a repository
    writable: bool = True  # launches are written for it
    shm: str | None = None  # shared memory that its workers need in a container
    api_key_env: str | None = None  # variable that holds the key which requests must carry
    caches: tuple[str, ...] = ()  # folders of ~/.cache that outlive a container: weights, kernels
    linked: tuple[tuple[str, str], ...] = ()  # options of a server that spans linked machines
    linked_note: str = ""  # what to start on the other machines
    linked_env: tuple[str, ...] = ()  # variables that name this machine on the link
    # options that give each rank whole experts, {ranks} of them, instead of a part of every one
    experts: tuple[tuple[str, str | None], ...] = ()
    stages: str | None = None  # the first release that drafts where each machine holds some layers
    image_starts: bool = False  # the image's entrypoint is the server, so that only options follow
    model_first: bool = False  # the model stands before the options, without a flag
    json_speculation: bool = False  # one JSON option says all of speculation
    diffusion: str | None = None  # its other server, which the same command may start
    graphs_per_k: bool = False  # captures CUDA graphs for every k of its schedule, each on its own
    schedule_in_pieces: bool = False  # a k per batch size costs it the FULL CUDA graphs
    counts_drafts: bool = True  # its metrics count draft tokens: none counted, none were made
    image_command: str = ""  # what has to stand before the options, where its image starts nothing


_LLAMA = EngineTraits(
    name="llama-server",
    port=8080,
    default_port=8080,
    listens_locally=True,
    pool="slots",
    gguf=True,
    k_range=(1, 2, 3, 4, 5, 6),
    cache_types=("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"),
    api_key_env="LLAMA_API_KEY",
    caches=("huggingface", "llama.cpp"),
    image_starts=True,
    linked=(("--rpc", "{others}"),),
    linked_note="Before it, on machine {machines} at MACHINE_N_IP: rpc-server -H 0.0.0.0 -p 50052",
)

_TRAITS: dict[Engine, EngineTraits] = {
    "vllm": EngineTraits(
        name="vllm",
        default_port=8000,
        pool="paged",
        states_in_pool=True,
        replicas=True,
        replicas_wait=True,
        k_range=(1, 2, 3, 4, 5),
        memory_share=True,
        quantizes_at_load=("fp8",),
        runs_repository_code=True,
        cache_types=("fp8", "fp8_e4m3"),
        shm="8gb",
        api_key_env="VLLM_API_KEY",
        model_first=True,
        json_speculation=True,
        schedule_in_pieces=True,
        caches=("huggingface", "vllm"),
        linked=(
            ("--nnodes", "{count}"),
            ("--node-rank", "0"),
            ("--master-addr", "FIRST_MACHINE_IP"),
        ),
        linked_note="On machine {machines} the same with --node-rank {ranks} --headless; "
        "FIRST_MACHINE_IP is the first one's; set VLLM_HOST_IP, NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME on each",
        linked_env=(
            "NCCL_SOCKET_IFNAME=INTERFACE",
            "GLOO_SOCKET_IFNAME=INTERFACE",
            "VLLM_HOST_IP=THIS_MACHINE_IP",
        ),
        stages="0.30.0",
        experts=(("--enable-expert-parallel", None),),
    ),
    "sglang": EngineTraits(
        name="sglang",
        default_port=30000,
        listens_locally=True,
        pool="paged",
        replicas=True,
        k_range=(1, 2, 3, 4),
        memory_share=True,
        outside_share=True,
        running=(256, 48),
        diffusion="sglang-diffusion",
        graphs_per_k=True,
        counts_drafts=False,
        image_command="python3 -m sglang.launch_server",
        quantizes_at_load=("fp8",),
        runs_repository_code=True,
        cache_types=("fp8_e4m3", "fp8_e5m2"),
        shm="8gb",
        caches=("huggingface",),
        linked=(
            ("--nnodes", "{count}"),
            ("--node-rank", "0"),
            ("--dist-init-addr", "FIRST_MACHINE_IP:5000"),
        ),
        linked_note="On machine {machines} the same with --node-rank {ranks}; FIRST_MACHINE_IP is "
        "the first one's address on the link; set on each NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME to its interface",
        linked_env=("NCCL_SOCKET_IFNAME=INTERFACE", "GLOO_SOCKET_IFNAME=INTERFACE"),
        experts=(("--ep-size", "{ranks}"),),
    ),
    "llama-server": _LLAMA,
    "ik_llama.cpp": _LLAMA._replace(name="ik_llama.cpp", k_range=(1, 2, 3), writable=False),
}


def traits(engine: str | None) -> EngineTraits:
    """The traits of an engine. Raises KeyError for one that is not ours to write for."""
    return _TRAITS[cast(Engine, engine)]


def gguf_engine(engine: str | None) -> bool:
    """Whether the engine loads GGUF files; False for one that is not known."""
    known = _TRAITS.get(cast(Engine, engine))
    return known is not None and known.gguf


def engines_with(trait: str) -> tuple[Engine, ...]:
    """The engines for which a trait holds, by its name."""
    return tuple(name for name, row in _TRAITS.items() if getattr(row, trait))
