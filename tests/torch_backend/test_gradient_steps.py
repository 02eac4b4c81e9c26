"""Backward passes without passes over memory that other kernels can do; equal to PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from compiled_models import compiled, normal  # noqa: E402
from weft.torch_backend import reports  # noqa: E402

pytestmark = pytest.mark.sim


def step(model: Any, run: Any, inputs: tuple[Any, ...], dtype: Any) -> list[Any]:
    """The inputs' and parameters' gradients after two backward passes."""
    for x in inputs:
        x.grad = None
    for _ in range(2):
        with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
            y = run(*inputs)
        y.float().square().mean().backward()
    return [t.grad.clone() for t in (*inputs, *model.parameters()) if t.requires_grad]


def steps_of(model: Any, *inputs: Any, dtype: Any = torch.float32) -> list[tuple[str, str]]:
    """The steps of the compiled backward pass, whose gradients are compared with PyTorch's."""
    other = copy.deepcopy(model)
    wanted = step(other, other, inputs, dtype)
    found = step(model, compiled(model), inputs, dtype)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype is theirs.dtype
        error = (ours - theirs).float().norm() / theirs.float().norm()
        assert error < (1e-5 if dtype is torch.float32 else 2e-2)
    report = next(r for r in reversed(reports()) if r.kind == "backward")
    return [(s.kind, s.name) for s in report.steps]


def fused(steps: list[tuple[str, str]]) -> list[str]:
    return [name for kind, name in steps if kind == "fused"]


# ---- residual connections ----------------------------------------------------------------------
class Residual(nn.Module):  # type: ignore[misc]
    """Blocks of a norm and a layer; `reads` more readers of the operands."""

    def __init__(self, norm: Any, reads: int = 0) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norm(8) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.reads = reads

    def forward(self, x: Any) -> Any:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            y = x + layer(norm(x))
            for _ in range(self.reads):
                y = y * x.cos()
            x = y
        return x


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize(
    ("dtype", "reads"), [(torch.float32, 0), (torch.bfloat16, 0), (torch.float16, 2)], ids=str
)
def test_norms_add_gradients_of_residuals(norm: Any, dtype: Any, reads: int) -> None:
    x = normal(4, 6, 8).requires_grad_()
    found = fused(steps_of(Residual(norm, reads), x, dtype=dtype))
    assert reads or not any("add" in name for name in found), found


def test_a_frozen_norm_and_one_without_weights() -> None:
    model = Residual(lambda n: nn.LayerNorm(n, elementwise_affine=False))
    model.layers[1].weight.requires_grad_(False)
    found = fused(steps_of(model, normal(4, 6, 8).requires_grad_()))
    assert not any("add" in name for name in found), found


# ---- gradients of parameters -------------------------------------------------------------------
class Biased(nn.Module):  # type: ignore[misc]
    def __init__(self, layers: list[Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


def test_gradients_of_biases_are_converted_together() -> None:
    """Those of weights are not: convolutions store them in float32."""
    model = Biased([nn.Conv2d(90, 90, 3, padding=1) for _ in range(3)])
    steps = steps_of(model, normal(1, 90, 3, 3), dtype=torch.bfloat16)
    assert [name for name in fused(steps) if "_to_copy" in name].count(
        "_to_copy, _to_copy, _to_copy"
    ) == 1
    assert [name for _, name in steps].count("weft.conv_backward_weight_wide") == 3


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_store_gradients_of_weights_in_float32(dtype: Any, bias: bool) -> None:
    """No kernel converts them, and none of their digits is lost."""
    model = Biased([nn.Linear(n, n + 1, bias=bias) for n in (30, 31)])
    steps = steps_of(model, normal(4, 3, 30), dtype=dtype)
    assert [name for _, name in steps].count("weft.matmul_wide") == 2
    conversions = [name for name in fused(steps) if name == "_to_copy" or "_to_copy, _" in name]
    assert not conversions, conversions
    for parameter in model.parameters():
        assert parameter.grad.dtype is torch.float32


def test_a_gradient_that_is_read_in_16_bits_is_converted() -> None:
    """Such as one that the graph returns as well."""

    def function(a: Any, b: Any) -> Any:
        product = a.half() @ b.half()
        return product, product.float() + 1

    a, b = normal(8, 16), normal(16, 4)
    product, wide = compiled(function)(a, b)
    assert product.dtype is torch.float16 and wide.dtype is torch.float32
    assert torch.equal(wide, product.float() + 1)


# ---- images with the channels last -------------------------------------------------------------
class Joined(nn.Module):  # type: ignore[misc]
    """Convolutions whose results are joined, so that their gradients have gaps, and shifted."""

    def __init__(self, taps: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 16, taps, padding=taps // 2)
        self.second = nn.Conv2d(8, 8, taps, padding=taps // 2, bias=False)
        self.last = nn.Conv2d(24, 8, 3, padding=1)
        self.shift = nn.Linear(4, 24)

    def forward(self, x: Any, t: Any) -> Any:
        x = x.sin()
        y = torch.cat((self.first(x), self.second(x)), 1)
        return self.last(y + self.shift(t)[:, :, None, None])


@pytest.mark.parametrize("form", [torch.channels_last, torch.contiguous_format], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("taps", [1, 3])
def test_gradients_keep_the_channels_last(taps: int, dtype: Any, form: Any) -> None:
    model = Joined(taps).to(memory_format=form)
    x = normal(2, 8, 12, 10).contiguous(memory_format=form).requires_grad_()
    steps = steps_of(model, x, normal(2, 4).requires_grad_(), dtype=dtype)
    names = [name for _, name in steps]
    if form is torch.channels_last:
        assert "clone" not in " ".join(names)
        assert "weft.permute" not in names  # gradients of weights are written in their order
        assert not any("sum" in name for name in fused(steps)), steps


# ---- factors of channels -----------------------------------------------------------------------
class Scaled(nn.Module):  # type: ignore[misc]
    """A factor and a term for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.term = (nn.Parameter(normal(6, 1, 1, seed=i) + 1) for i in range(2))

    def forward(self, x: Any) -> Any:
        return torch.tanh(x * self.factor + self.term)


@pytest.mark.parametrize("form", [torch.channels_last, torch.contiguous_format], ids=str)
@pytest.mark.parametrize("shape", [(3, 6, 5, 4), (1, 6, 5, 4), (3, 6, 1, 1)], ids=str)
def test_gradients_of_factors_are_sums_of_weft(shape: tuple[int, ...], form: Any) -> None:
    x = normal(*shape).contiguous(memory_format=form).requires_grad_()
    steps = steps_of(Scaled(), x)
    assert not [name for kind, name in steps if kind == "torch" and "sum" in name], steps
