"""`weft.quant.calibrate`: statistics, the norms that make inputs, and scale migration."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
from weft.networks.network import network  # noqa: E402  they need torch
from weft.quant import calibrate  # noqa: E402
from weft.quant.smoothing import factors, fold  # noqa: E402

nn = torch.nn


class Plain(nn.Module):
    """Norm, two layers that read its result, and more that `use` does with it."""

    def __init__(self, use: Any = None, norm: Any = None) -> None:
        super().__init__()
        self.norm = norm or nn.LayerNorm(8)
        self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)
        self.use = use

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        assert y.shape[-1] == y.size(-1) == 8  # sizes change nothing
        found = self.a(y) + self.b(input=y)
        return found if self.use is None else (found, self.use(self, x, y))


def test_statistics_of_several_batches() -> None:
    stream = draw.seeded(1)
    batches = [stream.normal(3, 5, 8), stream.normal(2, 5, 8)]
    found = calibrate(nn.Linear(8, 2), batches)[""]
    rows = torch.cat([b.reshape(-1, 8) for b in batches])
    assert found.rows == 25 and torch.equal(found.amax, rows.abs().amax(0))
    torch.testing.assert_close(found.energy, rows.double().square().mean(0).float())


def test_arguments_in_a_tuple_or_by_name() -> None:
    model, x = nn.Bilinear(2, 2, 2), torch.ones(1, 2)
    assert calibrate(model, [(x, x), {"input1": x, "input2": x}]) == {}
    plain = calibrate(Plain(), [{"x": torch.ones(1, 8)}, (torch.ones(1, 8),)])
    assert {name: found.rows for name, found in plain.items()} == {"a": 2, "b": 2}


def test_the_model_does_not_change() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2), nn.Sequential(nn.Dropout(0.5)).eval())
    found = calibrate(model, [torch.ones(2, 8)])
    assert found["1"].amax.tolist() == [1.0] * 8  # no dropout
    assert [m.training for m in model] == [True, True, False] and model.training
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
    with pytest.raises(RuntimeError):
        calibrate(model, [torch.ones(2, 7)])
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


LLAMA = {"q": "norm1", "k": "norm1", "v": "norm1", "out": "", "gate": "norm2", "up": "norm2"}


def test_norms_of_a_transformer() -> None:
    net = network("llama", "tiny")
    found = calibrate(net.module, [net.batch(1).inputs])
    for name, activations in found.items():
        part, last = name.rpartition(".")[0], name.rpartition(".")[2]
        norm = LLAMA.get(last, "norm" if last == "head" else "")
        block = ".".join(part.split(".")[:2])
        assert activations.norm == ".".join(filter(None, (block, norm))) * bool(norm), name


@pytest.mark.parametrize("name", ["bert"])
def test_norms_beside_a_residual_stay(name: str) -> None:
    net = network(name, "tiny")
    found = calibrate(net.module, [net.batch(1).inputs])
    assert not any(a.norm for n, a in found.items() if n.startswith("blocks."))


USES = {
    "a sum": lambda m, x, y: x + y,
    "a list": lambda m, x, y: torch.cat([x, y]),
    "a view": lambda m, x, y: m.a(y[:, :]),
    "a method": lambda m, x, y: y.relu(),
    "a property": lambda m, x, y: y.mT,
    "the result": lambda m, x, y: y,
    "a norm of a norm": lambda m, x, y: m.norm(y),
}


@pytest.mark.parametrize("use", USES)
def test_a_norm_with_other_uses(use: str) -> None:
    found = calibrate(Plain(USES[use]), [torch.ones(2, 8)])
    assert {a.norm for a in found.values()} == {""}


def test_a_layer_with_two_sources() -> None:
    found = calibrate(Plain(lambda m, x, y: m.a(x)), [torch.ones(2, 8)])
    assert {a.norm for a in found.values()} == {""}
    found = calibrate(Plain(), [torch.ones(2, 8)])
    assert {a.norm for a in found.values()} == {"norm"}


class Shifted(nn.LayerNorm):
    """A norm that multiplies by 1 + weight."""


@pytest.mark.parametrize(
    ("norm", "name"),
    [
        (nn.RMSNorm(8), "norm"),
        (weft.nn.LayerNorm(8), "norm"),
        (nn.LayerNorm(8, bias=False), "norm"),
        (nn.LayerNorm(8, elementwise_affine=False), ""),
        (nn.LayerNorm((2, 8)), ""),
        (Shifted(8), ""),
        (nn.Identity(), ""),
    ],
    ids=["rms", "weft", "no bias", "no weight", "two dimensions", "subclass", "identity"],
)
def test_kinds_of_norms(norm: Any, name: str) -> None:
    found = calibrate(Plain(norm=norm), [torch.ones(2, 8)])
    assert {a.norm for a in found.values()} == {name}


# ---- scale migration ---------------------------------------------------------------------------
@pytest.mark.parametrize("strength", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_migration_is_exact_in_float64(norm: Any, strength: float) -> None:
    stream = draw.seeded(2)
    model = Plain(norm=norm(8)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(stream.normal(*p.shape, dtype=torch.float64))
    x = stream.normal(16, 8, dtype=torch.float64) * torch.tensor([1, 50, 1, 1, 9, 1, 1, 0.01])
    before = model(x)
    amax = calibrate(model, [x])["a"].amax
    factor = factors(amax, [model.a.weight, model.b.weight], strength)
    fold(model.norm, factor)
    with torch.no_grad():
        for layer in (model.a, model.b):
            layer.weight.mul_(factor)
    torch.testing.assert_close(model(x), before, rtol=1e-12, atol=1e-12)
    if strength == 1:  # all input channels are equal
        torch.testing.assert_close(calibrate(model, [x])["a"].amax, torch.ones(8))


def test_channels_without_inputs_or_weights_stay() -> None:
    w = torch.tensor([[1.0, 0.0, 4.0]])
    assert factors(torch.tensor([0.0, 3.0, 1.0]), [w], 0.5).tolist() == [1.0, 1.0, 0.5]


# ---- refusals ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate(nn.Linear(2, 2), []), "there are no batches"),
        (lambda: calibrate(nn.Linear(2, 2), torch.ones(1, 2)), "is no sequence of batches\n  got:"),
        (lambda: calibrate(nn.Linear(2, 2), 3), "put one batch into a list"),
        (lambda: calibrate(abs, []), "a model is a module of PyTorch"),
        (
            lambda: calibrate(nn.Linear(2, 2), [torch.tensor([[1.0, torch.nan]])]),
            "the model, channel 1: an input of a layer is not finite\n  got: nan",
        ),
        (lambda: calibrate(nn.Linear(2, 2), [torch.ones(1, 2)]).layer("x"), "x: the calibration"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert message in str(raised.value)
