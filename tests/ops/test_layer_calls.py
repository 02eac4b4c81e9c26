"""The layers of public models: their sizes, their work, the calls that a seed or words name."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import weft
from weft.ops.models import cases, config, draw, layers, named, small
from weft.ops.models.config import Block, Model
from weft.ops.models.layers import Setting
from weft.ops.sweep.case import arguments

MODELS = config.models()


# ---- sizes -------------------------------------------------------------------------------------
PUBLISHED: dict[str, tuple[int, int, float]] = {
    "gpt2": (12, 1, 124e6),
    "gpt2-medium": (24, 1, 355e6),
    "gpt2-large": (36, 1, 774e6),
    "gpt2-xl": (48, 1, 1558e6),
    "llama2-7b": (32, 2, 6.74e9),
    "llama3-8b": (32, 2, 8.03e9),
    "llama3-70b": (80, 2, 70.6e9),
    "llama3.2-1b": (16, 1, 1.24e9),
    "mistral-7b": (32, 2, 7.24e9),
    "mixtral-8x7b": (32, 2, 46.7e9),
    "qwen2.5-7b": (28, 2, 7.62e9),
    "qwen2.5-0.5b": (24, 1, 494e6),
    "gemma2-2b": (26, 1, 2.61e9),
    "gemma2-9b": (42, 1, 9.24e9),
    "phi3-mini": (32, 2, 3.82e9),
    "falcon-7b": (32, 1, 6.92e9),
    "opt-1.3b": (24, 1, 1.32e9),
    "opt-6.7b": (32, 1, 6.66e9),
    "bloom-560m": (24, 1, 559e6),
    "bert-base": (12, 1, 110e6),
    "bert-large": (24, 1, 335e6),
    "deberta-v3-base": (12, 1, 184e6),
    "vit-b16": (12, 0, 86.6e6),
    "vit-l14": (24, 0, 304e6),
    "deit-s": (12, 0, 22.1e6),
    "dinov2-l": (24, 0, 304e6),
    "sam-vit-h": (32, 0, 637e6),
    "wav2vec2-base": (12, 0, 94.4e6),
}
"""Blocks, tables of embeddings (two if the head has its own), published number of parameters."""


def parameters(model: Model, depth: int, tables: int) -> float:
    b = model.blocks[0]
    attention = b.width * b.head_size * (2 * b.heads + 2 * b.kv)
    forward = (3 if b.gated else 2) * b.width * b.ffn * max(1, b.experts)
    convs = sum(c.filters * c.inputs // c.groups * c.kernel**model.dims for c in model.convs)
    return depth * (attention + forward) + tables * model.vocab * b.width + convs


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_give_the_published_number_of_parameters(name: str) -> None:
    """A wrong width, number of heads, feed-forward size or vocabulary shows here."""
    depth, tables, published = PUBLISHED[name]
    # Position tables, norms, classifiers and biases are not counted.
    assert parameters(MODELS[name], depth, tables) == pytest.approx(published, rel=0.05)


def test_every_model_is_complete() -> None:
    assert len(MODELS) >= 25 and {m.group for m in MODELS.values()} == set(config.GROUPS)
    for m in MODELS.values():
        assert m.source and layers.layers(m), m.name
        assert all(b.head or not b.heads or b.width % b.heads == 0 for b in m.blocks), m.name
        assert all(b.heads % b.kv == 0 for b in m.blocks if b.heads), m.name


def test_resnet50_has_the_published_multiplications() -> None:
    """4.1 billion in 53 convolutions: the layers of a stage repeat 3, 4, 6 and 3 times."""
    convs = {layers._name(c): c for c in MODELS["resnet50"].convs}
    repeats = {"conv64-64@56k3s1": 3, "conv64-256@56k1s1": 4, "conv256-64@56k1s1": 2,
               "conv128-512@28k1s1": 4, "conv512-128@28k1s1": 3, "conv128-128@28k3s1": 3,
               "conv256-1024@14k1s1": 6, "conv1024-256@14k1s1": 5, "conv256-256@14k3s1": 5,
               "conv512-2048@7k1s1": 3, "conv2048-512@7k1s1": 2, "conv512-512@7k3s1": 2,
               }  # fmt: skip
    assert sum(repeats.get(name, 1) for name in convs) == 53
    total = sum(
        repeats.get(n, 1) * c.filters * c.inputs * c.kernel**2 * c.out**2 for n, c in convs.items()
    )
    assert total == pytest.approx(4.09e9, rel=0.01)


# ---- layers and their work ---------------------------------------------------------------------
def call_of(words: str) -> draw.Drawn:
    (one,) = named.named(MODELS, [words])
    return one


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_can_be_called(name: str) -> None:
    """PyTorch accepts the tensors and options of every layer, forward and backward."""
    for layer in layers.layers(MODELS[name]):
        setting = Setting(
            2, (layer.tokens or (5,))[0], (layer.keys or (7,))[0], "float16", last=True
        )
        work = layer.make(setting)
        for case in {work.case, work.case + (" backward" if layer.trained else "")}:
            made = arguments(cases.case(case), work.call, "meta")
            results = made.of(cases.case(case).torch)
            assert results is not None, (layer.name, case)


@pytest.mark.parametrize(
    "words",
    [
        "llama3-8b qkv tokens=77",
        "gpt2 up_act batch=3 tokens=16",
        "mixtral-8x7b expert_down tokens=40",
        "resnet50 conv128-128@56k3s2 batch=4 channels_last",
        "convnext-t conv96-96@56k7s1g96 batch=2",
        "whisper-small conv768-768@3000k3s2",
        "vit-b16 self batch=2 tokens=197",
        "sd1.5-unet cross.1",
    ],
)
def test_work_is_as_pytorch_counts_it(words: str) -> None:
    one = call_of(words)
    made = arguments(cases.case(one.case), one.work.call, "meta")
    with FlopCounterMode(display=False) as counter:
        result = made.of(cases.case(one.case).torch)
    assert one.work.flops == counter.get_total_flops()
    tensors = [t for t in (*made.tensors, result) if t is not None]
    assert one.work.moved == sum(t.numel() * t.element_size() for t in tensors)


def test_causal_attention_is_half_and_backward_is_more() -> None:
    causal, whole = (call_of(f"{m} self tokens=512") for m in ("gpt2", "bert-base"))
    assert causal.work.flops == whole.work.flops / 2
    assert whole.work.cost(True)[0] == 3.5 * whole.work.flops
    assert call_of("gpt2 qkv backward").work.cost(True)[0] == 3 * call_of("gpt2 qkv").work.flops


def test_layers_have_the_shapes_of_their_model() -> None:
    shapes = {
        "llama3-8b gate_up tokens=700": [(1, 700, 4096), (28672, 4096)],
        "llama3-8b decode batch=16 keys=2048": [(16, 32, 1, 128), (16, 8, 2048, 128)],
        "gpt2-xl qkv tokens=77": [(1, 77, 1600), (4800, 1600), (4800,)],
        "sdxl-unet cross_kv.2": [(1, 77, 2048), (1280, 2048)],
        "swin-t self.1 batch=2": [(128, 3, 49, 32)],
        "resnet50 batch_norm64@112 batch=8": [(8, 64, 112, 112), (64,)],
        "dit-xl-2 modulation batch=8": [(8, 1152), (6912, 1152)],
    }
    for words, wanted in shapes.items():
        tensors = [t for t in call_of(words).work.call.tensors if t is not None]
        assert [t.shape for t in tensors][: len(wanted)] == wanted, words


# ---- drawn calls -------------------------------------------------------------------------------
def test_a_seed_stands_for_its_calls() -> None:
    every = list(MODELS.values())
    first, again, other = ([draw.words(c) for c in draw.drawn(every, s, 300)] for s in (7, 7, 8))
    assert first == again and len(set(first)) == 300
    assert len(set(first) & set(other)) < 30
    products = [draw.words(c) for c in draw.drawn(every, 7, 40, kinds=["products"])]
    of_kind = [w for w in first if w.split()[1] in {p.split()[1] for p in products}]
    assert products == of_kind[:40]
    assert [w for w in first if w.startswith("gpt2 ")] == [
        draw.words(c) for c in draw.drawn(every, 7, 300, only_models=["gpt2"])
    ][: sum(w.startswith("gpt2 ") for w in first)]


def test_draws_are_of_every_kind_and_within_limits() -> None:
    calls = draw.drawn(list(MODELS.values()), 3, 1000)
    kinds = Counter(c.layer.kind for c in calls)
    assert set(kinds) == set(layers.KINDS) == set(draw.WEIGHTS)
    assert kinds["products"] > kinds["attention"] > kinds["pool"]
    assert len({c.model.name for c in calls}) == len(MODELS)
    assert {c.setting.dtype for c in calls} == set(draw.DTYPES)
    assert 0.2 < sum(c.setting.backward for c in calls) / 1000 < 0.4
    assert {1, 77, 197, 700} < {c.setting.tokens for c in calls}
    for c in calls:
        assert draw.least(c.work, c.setting)[0] <= draw.MOST_SECONDS
        assert c.layer.trained or not c.setting.backward


def test_words_make_the_same_call_again() -> None:
    for one in draw.drawn(list(MODELS.values()), 5, 200):
        again = call_of(draw.words(one))
        assert again.work == one.work and again.case == one.case


def test_words_are_products_of_what_they_name() -> None:
    lines = ["llama3-8b linear tokens=1,700", "gpt2 qkv float16 forward backward"]
    found = named.named(MODELS, lines)
    words = [draw.words(one) for one in found]
    assert "llama3-8b gate_up batch=1 tokens=700 bfloat16" in words
    assert words[-2:] == [
        "gpt2 qkv batch=1 tokens=512 float16",
        "gpt2 qkv batch=1 tokens=512 float16 backward",
    ]
    assert len(words) == 2 * 5 + 2
    lengths = named.named(MODELS, ["vit-b16 self"])
    assert [one.setting.tokens for one in lengths] == [197, 577]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gpt2 nothing", "no layer has this name"),
        ("gpt2 qkv tokens=0", "a size cannot be read"),
        ("gpt2 qkv length=3", "a size cannot be read"),
        ("vit-b16 self tokens=5", "no layer has this name"),
    ],
)
def test_words_that_name_nothing(words: str, said: str) -> None:
    with pytest.raises(weft.ArgumentError, match=said):
        named.named(MODELS, [words])


# ---- small versions ----------------------------------------------------------------------------
def test_small_versions_are_small_and_alike() -> None:
    for one in draw.drawn(list(MODELS.values()), 2, 400):
        tiny = small.smaller(one)
        assert tiny.layer.kind == one.layer.kind and tiny.case == one.case
        assert max(math.prod(t.shape) for t in tiny.work.call.tensors if t is not None) < 2**19
        ranks = [[t and len(t.shape) for t in x.work.call.tensors] for x in (one, tiny)]
        assert ranks[0] == ranks[1]
    grouped = small.smaller(call_of("llama3-8b self"))
    assert grouped.work.call.shape(0) == (1, 8, 19, 128)
    assert grouped.work.call.shape(1) == (1, 2, 19, 128)


def test_a_block_without_attention_has_none() -> None:
    model = replace(MODELS["gpt2"], blocks=(Block(64, 256),), convs=())
    kinds = {layer.kind for layer in layers.layers(model)}
    assert "attention" not in kinds and "products" in kinds


def test_cases_of_fused_layers_agree_with_pytorch() -> None:
    """The two ways of a case compute the same function."""
    for words in ("gpt2 up_act tokens=3", "gemma2-2b gate_act tokens=3", "t5-base self tokens=5"):
        one = small.smaller(call_of(f"{words} float32"))
        case = cases.case(one.case)
        made = arguments(case, one.work.call, "cpu", torch.Generator().manual_seed(1))
        torch.testing.assert_close(made.of(case.call), made.of(case.torch), rtol=1e-5, atol=1e-5)
