"""What a document says once for all its servers: the kind of GPU, and the image."""

from collections.abc import Iterator

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Surroundings, gpu_kind
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped
from advisor.readers.syntax.yamlnodes import Node, walk

# accelerators (SkyPilot), gpu_type (srt-slurm), cloud.google.com/gke-accelerator,
# nvidia.com/gpu.product, karpenter.k8s.aws/instance-gpu-name, gpuTypeIds (RunPod)
_KEY = lazy_re(
    r"(?i)(?:.*[./_-])?(?:gke-)?(?:accelerators?|gpus?)"
    r"(?:[._-]?(?:types?|names?|models?|product(?:[._-]name)?)(?:[_-]?ids?)?)?"
)
_ASKS = lazy_re(r"(?i)accelerator|gpu")
# of Truss, SkyPilot, srt-slurm
_IMAGES = ("base_image.image", "resources.image_id", "model.container")
_IMAGE = lazy_re(r"(?:docker:)?([\w.-]+(?::\d+)?(?:/[\w.-]+)+(?:[:@][\w.:-]+)?)")


def attach_machines(document: Node, reading: Reading) -> None:
    """Give a document's servers the GPU and image beside them; nothing where there are several."""
    inside = [
        one
        for one in reading.found
        if document.start <= one.at <= document.end and one.form != "document"  # an example
    ]
    kinds = set(_kinds(document)) if inside and _ASKS.search(reading.source.text) else set()
    kind, image = next(iter(kinds)) if len(kinds) == 1 else "", _image(document)
    for found in inside if kind or image else ():
        around = found.around = found.around or Surroundings(kind=found.form)
        around.image, around.gpu_kind = around.image or image, around.gpu_kind or kind


def _kinds(document: Node) -> Iterator[str]:
    named: list[Node] = []
    for mapping in walk(document, 5_000):
        if _KEY.fullmatch(mapping.get("key").text) and (
            mapping.get("operator").text in ("", "In")  # of a node affinity
        ):
            named += mapping.get("values").items
        for name, value in mapping.pairs:
            if name.kind == "scalar" and _KEY.fullmatch(name.text):
                inner = value.get("name", "type", "product")
                own = [inner] if inner else [key for key, _ in value.pairs]
                named += [value, *value.items, *own]
    yield from (kind for one in named if one.kind == "scalar" and (kind := gpu_kind(one.text)))


def _image(document: Node) -> Mapped | None:
    for path in _IMAGES:
        node = document.path(path)
        if node.kind == "scalar" and (name := _IMAGE.fullmatch(node.text)):
            return node.text_map.part(*name.span(1))
    return None
