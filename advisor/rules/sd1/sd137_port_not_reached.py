from collections.abc import Iterator

from advisor.domain.nouns import Case, Edit, Fix, Port
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.flags import CATALOGUED

DEFAULTS = {"vllm": 8000, "sglang": 30000, "llama-server": 8080}
KILLS = ("livenessProbe", "startupProbe")


@rule(
    severity="warning",
    engines=CATALOGUED,
    sources=(
        "https://docs.docker.com/reference/compose-file/services/#ports",
        "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
        "the engines' own parsers (defaults of --port), catalogued by release",
    ),
)
def port_not_reached(case: Case) -> Iterator[Hit]:
    """A port that is published, or that a probe calls, and on which the server does not listen.

    Why: nobody reaches the server through a port of the container on which nothing listens; a
    liveness or startup probe that asks there kills it again and again.
    Bad:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            ports: ["8000:8080"]
            command: --model Qwen/Qwen3-8B
    Good:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            ports: ["8000:8000"]
            command: --model Qwen/Qwen3-8B
    """
    container, given = case.launch.container, flag(case, "--port")
    if container is None or not container.ports or (given is not None and given.unresolved):
        return
    if given is None and case.launch.fork is not None:
        return  # an image of somebody else's may have a port of its own
    port = case.plan.port or DEFAULTS[case.plan.engine]
    published = [one for one in container.ports if not one.probe]
    if published and all(one.number != port for one in published):
        yield hit(
            case, published[0], port, f"port {published[0].number} of the container is published"
        )
    for probe in container.ports:
        if probe.probe and probe.number != port:
            yield hit(case, probe, port, f"the {probe.probe} asks port {probe.number}")


def hit(case: Case, at: Port, port: int, what: str) -> Hit:
    """The hit of one port."""
    edits: tuple[Edit, ...] = ()
    given = flag(case, "--port")
    if given is not None and at.number == DEFAULTS[case.plan.engine]:  # the odd one is the server's
        return Hit(
            f"{what}, but the server listens on {port}",
            line=at.line,
            severity="error" if at.probe in KILLS else None,
            fix=set_fix(
                case,
                given,
                str(at.number),
                f"Give the server --port {at.number}, or write {port} there.",
            ),
        )
    if at.span is not None:
        place = at.span
        edits = (Edit(file=case.launch.file, start=place.start, end=place.end, text=str(port)),)
    return Hit(
        f"{what}, but the server listens on {port}",
        line=at.line,
        severity="error" if at.probe in KILLS else None,
        fix=Fix(text=f"Write {port} there, or give the server --port {at.number}.", edits=edits),
    )
