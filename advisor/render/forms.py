"""Every form of an answer, in one table: command line, tests and documentation read it."""

from importlib import import_module

from advisor.domain.nouns import Advice, AdvisorError, Engine
from advisor.domain.records import NamedTuple


class OutputForm(NamedTuple):
    """One way to write an answer."""

    writer: str  # `module:function` that takes the Advice; imported when it is used
    file: str = ""  # that starts a server, so that our own readers read it back; "": it does not
    engines: tuple[Engine, ...] = ("vllm", "sglang", "llama-server")  # that it can start
    title: str = "this form"  # in messages

    def write(self, advice: Advice) -> str:
        """The text. Raises AdvisorError where this form cannot hold this answer."""
        if advice.plan.engine not in self.engines:
            raise AdvisorError(
                f"{self.title} is written for {' and '.join(self.engines)} only: choose another "
                f"form, or --engine {self.engines[0]}"
            )
        module, name = self.writer.split(":")
        text: str = getattr(import_module(module), name)(advice)
        return text


_DEPLOY = "advisor.render.deploy."
_VLLM: tuple[Engine, ...] = ("vllm",)
FORMS: dict[str, OutputForm] = {
    "json": OutputForm("advisor.render.json_out:advice_json_text"),
    "flags": OutputForm(_DEPLOY + "serving:flags_text"),
    "docker-run": OutputForm(_DEPLOY + "compose:docker_run", "docker-run.sh"),
    "compose": OutputForm(_DEPLOY + "compose:compose_yaml", "docker-compose.yml"),
    "systemd": OutputForm(_DEPLOY + "units:systemd_unit", "llm-server.service"),
    "quadlet": OutputForm(_DEPLOY + "units:quadlet", "llm-server.container"),
    "k8s": OutputForm(_DEPLOY + "k8s:deployment_yaml", "deployment.yaml"),
    "helm": OutputForm(
        _DEPLOY + "k8s:helm_values", "values.yaml", engines=_VLLM, title="a Helm values file"
    ),
    "ray": OutputForm(_DEPLOY + "ray:ray_serve", "serve.yaml", _VLLM, "a Ray Serve configuration"),
}
STARTS = tuple(name for name, form in FORMS.items() if form.file)
