"""No launch has a longer context than its model is known to take; where that is not known, none is
made up.
"""

import pytest

from advisor import recommend
from advisor.domain.nouns import AdvisorError
from advisor.knowledge import store

NAMES = [name for name in store.llm_ids() if not store.llm(name).is_class]
# config.json (max_position_embeddings) of models whose context the files here do not have
PUBLIC = {"mimo-7b": 32_768, "minicpm3": 32_768, "glm-5.2": 1_048_576, "deepseek-v3": 163_840}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
@pytest.mark.parametrize("name", NAMES)
def test_no_context_is_made_up(name: str, engine: str) -> None:
    try:
        advice = recommend(hardware="b300", gpus=64, model=name, engine=engine, what_if=False)
    except AdvisorError:
        return  # no checkpoint for this engine
    top = store.llm(name).max_context_tokens or PUBLIC.get(name)
    length = advice.plan.max_model_len
    assert top is None or length is None or length <= top
    if top is None:
        need = 2048 + 512  # the question's own, with room to spare
        assert length is None or need <= length <= 2 * 4096
        assert any(field == "max_model_len" for field, _, _ in advice.facts.defaults)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_launch_stays_within_the_public_context(name: str) -> None:
    advice = recommend(hardware="b300", gpus=8, model=name, engine="vllm", what_if=False)
    if advice.plan.max_model_len is None:
        assert "--max-model-len auto" in advice.launch.text.replace("\\\n", "")
    else:
        assert advice.plan.max_model_len <= PUBLIC[name]
