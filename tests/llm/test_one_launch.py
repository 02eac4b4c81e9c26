"""A decoding step in one launch: its logits beside float64, and the models that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import draw  # noqa: E402
import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402
from weft.device.sim import schedules  # noqa: E402
from weft.llm import Generator  # noqa: E402
from weft.llm.fused.step import FusedStep  # noqa: E402

BF16, F16 = torch.bfloat16, torch.float16
SIZES = {
    "vocab_size": 80, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
    "intermediate_size": 512, "head_dim": 64, "max_position_embeddings": 512,
    "num_hidden_layers": 1, "tie_word_embeddings": False,
}  # fmt: skip

FAMILIES = {**plain.CONFIGS, "mistral": plain.MISTRAL}


def decoder(folder: Path, family: str, dtype: Any, form: str = "", **sizes: Any) -> Any:
    """A model on the simulated GPU; form "int4:128" has groups of 128."""
    config = {**FAMILIES[family], **SIZES, **sizes}
    stored = plain.weights(config, 1, torch.float32)
    scaled = {k: x / 4 if "norm" not in k else x for k, x in stored.items()}
    model = weft.llm.load(plain.write(folder, config, scaled), "cpu", dtype)
    if form:
        kind, _, group = form.partition(":")
        weft.quant.convert(model, kind, int(group) if group else None)
    return model


def public(model: Any) -> dict[str, Any]:
    """The weights that a model computes with, by their public names."""
    c = model.config
    counts = [n * c.head_size for n in (c.heads, c.kv_heads, c.kv_heads)]

    def weight(layer: Any) -> Any:
        return (layer.dequantised() if hasattr(layer, "quantised") else layer).weight

    found = {
        "model.embed_tokens.weight": model.embedding.weight,
        "model.norm.weight": model.norm.weight,
        "lm_head.weight": weight(model.head),
    }
    for i, block in enumerate(model.blocks):
        at = f"model.layers.{i}."
        qkv, up = weight(block.qkv).split(counts), weight(block.up).chunk(2)
        for n, name in enumerate("qkv"):
            found[f"{at}self_attn.{name}_proj.weight"] = qkv[n]
            if block.qkv.bias is not None:
                found[f"{at}self_attn.{name}_proj.bias"] = block.qkv.bias.split(counts)[n]
        for name, x in (("q", block.q_norm), ("k", block.k_norm)):
            if x is not None:
                found[f"{at}self_attn.{name}_norm.weight"] = x
        found[f"{at}self_attn.o_proj.weight"] = weight(block.out)
        found[f"{at}mlp.gate_proj.weight"], found[f"{at}mlp.up_proj.weight"] = up
        found[f"{at}mlp.down_proj.weight"] = weight(block.down)
        found[f"{at}input_layernorm.weight"] = block.norm1.weight
        found[f"{at}post_attention_layernorm.weight"] = block.norm2.weight
    return found


def begun(model: Any, lengths: list[int], capacity: int) -> tuple[Any, list[list[int]]]:
    """A generator whose prompts have run, and the texts with the token that was drawn."""
    numbers = draw.seeded(5)
    prompts = [numbers.integers(0, model.config.vocabulary, (n,)).tolist() for n in lengths]
    generator: Any = Generator(model, rows=len(lengths), capacity=capacity)
    generator.open = generator.stream(prompts, 2, stop=())  # its texts end when it is dropped
    drawn = next(generator.open)
    return generator, [[*p, t] for p, t in zip(prompts, drawn, strict=True)]


def by_parts(generator: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The logits of the same step by single kernels."""
    with monkeypatch.context() as patch:
        patch.setattr(FusedStep, "of", classmethod(lambda *_: None))
        generator._fused = None
        return generator._step_logits().double()


CASES: dict[str, Any] = {
    # Two tiles of keys for each block; a head of keys for each of queries; half a unit of logits.
    "llama bf16": ("llama", BF16, "", [280], {"num_key_value_heads": 8, "vocab_size": 72}),
    "qwen2 int4 in groups, two texts": ("qwen2", BF16, "int4:128", [9, 70], {}),
    "qwen3 int8, heads of 128": ("qwen3", F16, "int8", [3], {"head_dim": 128}),
    "llama int8 in groups": ("llama", BF16, "int8:128", [40], {"intermediate_size": 1536}),
    "llama e4m3": ("llama", BF16, "e4m3", [40], {"intermediate_size": 192}),
}


@pytest.mark.sim
@pytest.mark.parametrize("name", CASES)
def test_logits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are as near to float64 as those of single kernels, and the cache gets the token."""
    family, dtype, form, lengths, sizes = CASES[name]
    model = decoder(tmp_path, family, dtype, form, **sizes)
    generator, texts = begun(model, lengths, max(lengths) + 20)
    got = generator._step_logits().double()
    assert generator._fused is not None and generator._fused.has_head
    kept = [x.clone() for x in (*generator.cache.keys, *generator.cache.values)]
    other = by_parts(generator, monkeypatch)
    for mine, theirs in zip(kept, (*generator.cache.keys, *generator.cache.values), strict=True):
        torch.testing.assert_close(mine, theirs, atol=0.02, rtol=0.02)
    config, weights = {**FAMILIES[family], **SIZES, **sizes}, public(model)
    want = torch.stack([plain.logits(config, weights, text) for text in texts])
    error, others = ((x - want).norm() / want.norm() for x in (got, other))
    assert error <= 1.25 * others + 1e-3 and others < 0.05, (error, others)


@pytest.mark.sim
def test_sanitized_and_scheduled(tmp_path: Path) -> None:
    """Nothing is found, and no order of copies and warps changes a bit."""
    model = decoder(tmp_path, "llama", BF16, "int4:128")
    generator, _ = begun(model, [70], 100)
    want = generator._step_logits().clone()
    with weft.sanitize() as session:
        generator._step_logits()
    assert not session.findings
    for schedule in schedules.several(3):
        with weft.schedule(str(schedule)):
            assert torch.equal(generator._step_logits(), want), schedule


@pytest.mark.sim
@pytest.mark.parametrize("what", ["a weight", "a norm that overflows", "keys of one block"])
def test_not_a_number_stays_one(what: str, tmp_path: Path) -> None:
    """Integers have none, so that results are marked; so are parts of keys without a maximum."""
    model = decoder(tmp_path, "llama", F16, "int4:128")
    generator, _ = begun(model, [70], 100)
    assert generator._fused is not None and generator._fused.has_head
    if what == "a weight":
        model.blocks[0].norm2.weight[3] = float("nan")
    elif what == "a norm that overflows":
        model.norm.weight.fill_(65504.0)
    else:
        assert generator._fused.plan.struct.splits == 3
        generator.cache.keys[0][0, :24] = float("nan")
    assert generator._step_logits().isnan().all()


@pytest.mark.sim
def test_other_tensors_and_a_head_of_another_form(tmp_path: Path) -> None:
    """The next texts see them; a head that was not converted is a product of its own."""
    model = decoder(tmp_path, "llama", BF16)
    generator = Generator(model, capacity=16)

    def changes(change: Callable[[], object]) -> None:
        drawn = generator.generate([[1, 2, 3]], 8, stop=())
        change()
        assert generator.generate([[1, 2, 3]], 8, stop=()) != drawn
        assert generator._fused is not None
        fresh = Generator(model, capacity=16)
        assert generator.generate([[1, 2, 3]], 8, stop=()) == fresh.generate(
            [[1, 2, 3]], 8, stop=()
        )

    def swap() -> None:
        model.blocks[0].norm2.weight.data = -4 * model.blocks[0].norm2.weight.data

    def replace() -> None:
        norm = model.blocks[0].norm1
        norm.weight = torch.nn.Parameter(-4 * norm.weight, False)

    changes(swap)
    changes(replace)
    changes(lambda: weft.quant.convert(model, "int4", 128, skip=("head",)))
    assert not generator._fused.has_head


@pytest.mark.sim
def test_a_launch_that_was_stopped(tmp_path: Path) -> None:
    """It leaves numbers in the counters of blocks that meet; the next launch begins with zeros."""
    generator, _ = begun(decoder(tmp_path, "llama", BF16), [5], 40)
    want = generator._step_logits().clone()
    generator._fused._counters.fill_(3)
    assert torch.equal(generator._step_logits(), want)


LEFT: dict[str, Any] = {
    "float32": ("llama", torch.float32, "", 1, {}, {}),
    "pages": ("llama", BF16, "", 1, {}, {"cache": "paged", "page": 8}),
    "a page for each text": ("llama", BF16, "", 1, {}, {"cache": "paged", "page": 16}),
    "norms of float32": ("llama", BF16, "norms", 1, {}, {}),
    "four texts": ("llama", BF16, "", 4, {}, {}),
    "heads of 32": ("llama", BF16, "", 1, {"head_dim": 32}, {}),
    "zero points": ("llama", BF16, "zeros", 1, {}, {}),
    "a window": ("mistral", BF16, "", 1, {"sliding_window": 15}, {}),
    "scales between vectors": ("llama", BF16, "scales", 1, {}, {}),
    "rows that are no whole parts": ("llama", BF16, "int4", 1, {"hidden_size": 544}, {}),
}


@pytest.mark.sim
@pytest.mark.parametrize("name", LEFT)
def test_models_that_it_leaves(name: str, tmp_path: Path) -> None:
    """Single kernels compute them; nothing is refused."""
    family, dtype, form, rows, sizes, options = LEFT[name]
    own = form in ("zeros", "norms", "scales")
    model = decoder(tmp_path, family, dtype, "" if own else form, **sizes)
    if form == "norms":
        model.norm.float()
    if form == "zeros":
        weft.quant.convert(model, "int8", symmetric=False)
    if form == "scales":
        weft.quant.convert(model, "int8")
        layer = model.blocks[0].qkv
        layer.scale = torch.cat([layer.scale[:1], layer.scale])[1:]
    generator = Generator(model, rows=rows, capacity=16, **options)
    cos, sin = generator._rotary
    assert FusedStep.of(model, generator.cache, cos, sin) is None


def test_batch_invariant_steps_are_single_kernels(tmp_path: Path) -> None:
    """The sums of the launch are those of one or two texts alone."""
    model = decoder(tmp_path, "llama", BF16)
    for batch_invariant in (False, True):
        generator = Generator(model, capacity=32, batch_invariant=batch_invariant)
        generator._follow_model()
        assert (generator._fused is None) == batch_invariant


@pytest.mark.sim
def test_a_window_that_texts_do_not_leave(tmp_path: Path) -> None:
    """Tokens see all others then, as those of a Llama."""
    model = decoder(tmp_path, "mistral", BF16, sliding_window=16)
    generator = Generator(model, capacity=16)
    assert FusedStep.of(model, generator.cache, *generator._rotary) is not None
