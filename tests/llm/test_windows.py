"""Sliding windows of Mistral and Qwen 2: tokens and logits beside those of plain PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402

MODELS = {"mistral": plain.MISTRAL, "qwen2": plain.WINDOWED}
PROMPTS = ([3, 1, 4], [15], [9, 2, 6, 5, 35, 8, 9])
"""Shorter than the windows, and longer."""
CACHES: dict[str, Any] = {
    "float32": (torch.float32, {}, 1e-3),
    "static": (torch.float16, {}, 0.05),
    "pages": (torch.float16, {"cache": "paged", "page": 4}, 0.05),
}


def loaded(folder: Path, config: Any, dtype: Any, seed: int = 1) -> tuple[Any, Any]:
    """A model, and its weights by their public names."""
    stored = plain.weights(config, seed, dtype)
    return weft.llm.load(plain.write(folder, config, stored), "cpu"), stored


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", MODELS)
def test_generated_tokens(tmp_path: Path, name: str, cache: str) -> None:
    """Texts pass the end of the window; tokens lead by more than roundings."""
    config, (dtype, options, least) = MODELS[name], CACHES[cache]
    model, stored = loaded(tmp_path, config, dtype)
    generator = weft.llm.Generator(model, rows=3, capacity=16, **options)
    found = generator.generate(PROMPTS, 6)
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        want, lead = plain.greedy(config, stored, prompt, 6)
        assert tokens == want and lead > least, lead
    full = {**config, "sliding_window": None}
    assert any(
        plain.greedy(full, stored, p, 6)[0] != t for p, t in zip(PROMPTS, found, strict=True)
    )


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", MODELS)
def test_several_tokens_in_one_pass(tmp_path: Path, name: str, cache: str) -> None:
    """Prompts, different numbers of tokens after them, and the same numbers."""
    config, (dtype, options, tolerance) = MODELS[name], CACHES[cache]
    model, stored = loaded(tmp_path, config, dtype)
    texts = weft.llm.Texts(model, rows=2, capacity=16, **options)
    first, second = [3, 1, 4, 15, 9, 2, 6, 5], [9, 2, 6, 5, 35, 8, 9]
    parts = ([first[:3], second[:1]], [first[3:4], second[1:5]], [first[4:6], second[5:]])
    steps = [texts.extend(part) for part in (*parts, [first[6:]])]
    for row, tokens in enumerate((first, second)):
        found = torch.cat([step[row] for step in steps if row < len(step)]).float()
        every = [plain.logits(config, stored, tokens[: i + 1]) for i in range(len(tokens))]
        assert torch.allclose(found, torch.stack(every).float(), atol=tolerance)
