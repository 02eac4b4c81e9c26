"""Networks in plain PyTorch: their sizes are the published ones, and weft's layers compute them."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

import draw
import weft
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
from weft.networks.network import (  # noqa: E402  they need torch
    Network,
    names,
    network,
    sizes,
)

PUBLISHED = {
    ("bert", "base"): 109_514_298,
    ("convnext", "t"): 28_589_128,
    ("gpt2", "124m"): 124_439_808,
    ("gpt2", "350m"): 354_823_168,
    ("llama", "1b"): 1_235_814_400,
    ("llama", "8b"): 8_030_261_248,
    ("resnet", "50"): 25_557_032,
    ("unet", "sd15"): 859_520_964,
    ("vit", "b16"): 86_567_656,
}
"""The parameters of the models that are distributed under these names."""


@pytest.mark.parametrize(("name", "size"), PUBLISHED)
def test_sizes_are_the_published_ones(name: str, size: str) -> None:
    module = network(name, size, device="meta").module
    assert sum(p.numel() for p in module.parameters()) == PUBLISHED[name, size]


def test_networks_and_their_sizes() -> None:
    assert set(names()) == {name for name, _ in PUBLISHED}
    assert all("tiny" in sizes(name) for name in names())
    assert network("gpt2", device="meta").size == "124m"


@pytest.mark.parametrize("name", names())
def test_nothing_of_weft_is_inside(name: str) -> None:
    tree = ast.parse(inspect.getsource(network(name, "tiny").kind))
    imports = (n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    assert {m for m in imports if m and m.startswith("weft")} == {"weft.networks.draws"}


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [
        ("gpt3", "", "there is no such network\n  got: gpt3"),
        ("gpt3", "", "did you mean 'gpt2'?"),
        ("gpt2", "125m", "gpt2 has no such size\n  got: 125m\n  allowed: 124m, 350m"),
    ],
)
def test_unknown_names(name: str, size: str, said: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        network(name, size)
    assert said in str(raised.value)


def drawn(name: str) -> Network:
    """A tiny network whose weights have the same bits on every CPU."""
    net, stream = network(name, "tiny"), draw.seeded(3)
    with torch.no_grad():
        for p in net.module.parameters():
            noise = stream.normal(*p.shape)
            p.copy_(1 + 0.1 * noise if p.dim() == 1 else noise * p[0].numel() ** -0.5)
    return net


def gradients(net: Network, module: Any, batch: Any) -> tuple[float, list[Any]]:
    value = net.loss(module(*batch.inputs), batch.target)
    value.backward()
    return value.item(), [p.grad for p in module.parameters()]


@pytest.mark.sim
@pytest.mark.filterwarnings("ignore:weft.nn")  # names what PyTorch computes
@pytest.mark.parametrize("name", names())
def test_converted_networks_compute_the_same(name: str) -> None:
    plain, other = drawn(name), drawn(name)
    batch = plain.batch(2, seed=5)
    expected, right = gradients(plain, plain.module, batch)
    found, made = gradients(other, weft.nn.convert(other.module), batch)
    assert found == pytest.approx(expected, rel=1e-5)
    scale = max(float(g.abs().max()) for g in right)
    assert max(float((a - b).abs().max()) for a, b in zip(right, made, strict=True)) < 1e-4 * scale


@pytest.mark.parametrize("name", names())
def test_batches(name: str) -> None:
    net = network(name, "tiny")
    once, again, other = (net.batch(3, seed=s, dtype=torch.float64) for s in (1, 1, 2))
    assert all(map(torch.equal, (*once.inputs, once.target), (*again.inputs, again.target)))
    assert not torch.equal(once.inputs[0], other.inputs[0])
    assert all(len(t) == 3 for t in (*once.inputs, once.target))
    floats = [t for t in once.inputs if t.is_floating_point()]
    assert all(t.dtype == torch.float64 for t in floats) and net.images == bool(floats)


def test_the_length_of_a_batch() -> None:
    assert network("gpt2", "tiny").batch(2, 5).inputs[0].shape == (2, 5)
    assert network("resnet", "tiny").batch(2, 32).inputs[0].shape == (2, 3, 32, 32)


def test_a_padded_text_does_not_read_its_padding() -> None:
    net = drawn("bert")
    batch = net.batch(1)
    present = torch.arange(16)[None] < 9
    tokens, segments = batch.inputs
    changed = torch.where(present, tokens, (tokens + 1) % 61)
    with torch.no_grad():
        ours, theirs = (net.module(t, segments, present)[:, :9] for t in (tokens, changed))
    torch.testing.assert_close(ours, theirs)
