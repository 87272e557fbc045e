from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import span_fix


@rule(severity="error")
def form_slip(case: Case) -> Iterator[Hit]:
    """A key or an argument that the tool which reads the file refuses.

    Why: docker compose and Kubernetes refuse the file; systemd passes over the key.
    Bad:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            comand: --model Qwen/Qwen3-8B
    Good:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            command: --model Qwen/Qwen3-8B
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
        )
