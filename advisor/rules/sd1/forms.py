"""What stands around a command: keys, and the ports by which a server is reached."""

from advisor.domain.nouns import Case, Port
from advisor.engines.images import is_official
from advisor.engines.traits import traits
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.fixes import add_fix, set_fix, span_fix

KILLS = ("livenessProbe", "startupProbe")
DEAD_ENDS = (*KILLS, "readinessProbe", "Service", "web_server")


@rule("SD136", "error")
def form_slip(case: Case) -> Hits:
    """A key or an argument that the tool which reads the file refuses.

    Why: docker compose and Kubernetes refuse the file; systemd passes over the key.
    Bad:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            comand: --model Qwen/Qwen3-8B
    Good: with command: for comand:
    Sources: compose-spec/compose-spec schema/compose-spec.json; rancher/rancher#4600;
        sgl-project/sglang#1567;
        https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation;
        mostlygeek/llama-swap LoadConfigFromReader (proxy uses ${PORT} but cmd does not);
        https://dstack.ai/docs/reference/dstack.yml/service (port)
    """
    for slip in case.launch.slips:
        written = " ".join(slip.text.split())
        yield Hit(
            slip.message,
            line=slip.line,
            severity=None if slip.stops else "warning",
            fix=span_fix(
                case, slip.span, slip.text, f"Write {written}." if written else "Leave it out."
            ),
            everywhere=True,
            sole=slip.sole,
            sources=slip.sources,
        )


@rule("SD137", "warning", "catalogued", decides=True)
def port_not_reached(case: Case) -> Hits:
    """A port or an address at which the server does not answer.

    Why: nobody reaches a server on another port, or on the container's own loopback address; a
    liveness or startup probe that asks there kills it again and again.
    Bad:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            ports: ["8000:8080"]
            command: --model Qwen/Qwen3-8B
    Good: with ["8000:8000" for ["8000:8080"
    Sources: https://docs.docker.com/reference/compose-file/services/#ports;
        https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/; the
        engines' own parsers (defaults of --host and --port), catalogued by release
    """
    yield from ports(case)
    yield from hosts(case)


def ports(case: Case) -> Hits:
    """Ports on which nothing listens."""
    container, given = case.launch.container, case.flag("--port")
    if container is None or (given is not None and given.unresolved):
        return
    if given is None and (case.launch.fork is not None or not case.launch.flags):
        return  # an image of somebody else's may have a port of its own, and bare words no options
    port = case.plan.port or traits(case.plan.engine).default_port
    published = [one for one in container.ports if not one.probe]
    if published and all(one.number != port for one in published):
        what = f"port {published[0].number} of the container is published"
        yield hit(case, published[0], port, what)
    served = any(one.probe == "Service" and one.number == port for one in container.ports)
    for probe in container.ports:
        service = probe.probe == "Service"
        if probe.probe and probe.number != port and not (served and service):
            does = "sends to" if service else "asks"
            yield hit(case, probe, port, f"the {probe.probe} {does} port {probe.number}")


def hit(case: Case, at: Port, port: int, what: str) -> Hit:
    """The hit of one port."""
    given = case.flag("--port")
    box, default = case.launch.container, traits(case.plan.engine).default_port
    others = {one.number for one in box.ports} if box else set()
    if given is not None and at.number == default and port not in others:  # the server's is odd
        text = f"Give the server --port {at.number}, or write {port} there."
        fix = set_fix(case, given, str(at.number), text)
    else:
        text = f"Write {port} there, or give the server --port {at.number}."
        fix = span_fix(case, at.span, str(port), text)
    return Hit(
        f"{what}, but the server listens on {port}",
        line=at.line,
        severity="error" if at.probe in DEAD_ENDS else None,
        fix=fix,
    )


def hosts(case: Case) -> Hits:
    """A server that listens on the loopback address of its container."""
    container, given = case.launch.container, case.flag("--host")
    if container is None or (given is not None and given.unresolved):
        return
    reached = [one for one in container.ports if one.probe != "healthcheck"]
    if not reached or not container.image or container.kind == "dockerfile":
        return
    kills = any(one.probe in KILLS for one in reached)
    if given is not None and (given.value or "").strip("[]") in ("127.0.0.1", "localhost", "::1"):
        yield Hit(
            f"the server listens on {given.value} in its container: nobody outside reaches it",
            flag=given,
            severity="error" if kills or is_official(container.image) else None,
            fix=set_fix(case, given, "0.0.0.0", "Listen on 0.0.0.0."),
        )
        return
    default = given is None and case.launch.env_value("SGLANG_HOST_IP") is None
    own = case.plan.engine == "sglang" and is_official(container.image)
    # an operator adds options of its own
    whole = container.complete and not any(one.unresolved for one in case.launch.flags)
    if default and own and whole:
        beside = case.flag("--port", "--model-path")
        yield Hit(
            "SGLang listens on 127.0.0.1 by default: nobody outside the container reaches it",
            flag="--host",
            line=reached[0].line,
            severity="error",
            fix=add_fix(case, beside, "--host", "0.0.0.0", "Add --host 0.0.0.0."),
        )
