"""The backend "weft" with idioms of public models: results and gradients equal eager PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from compiled_models import compiled, normal, same  # noqa: E402
from weft.torch_backend import left  # noqa: E402


# ---- constants ---------------------------------------------------------------------------------
def test_zeros_in_the_memory_order_of_a_computed_value() -> None:
    def filled(x: Any) -> Any:
        transposed = x.exp().t()
        state = torch.zeros_like(transposed)
        state[0] = transposed[0]
        return state

    same(filled, normal(4, 6))


def test_zeros_in_the_memory_order_of_a_value_that_nothing_else_reads() -> None:
    def filled(x: Any) -> Any:
        state = torch.zeros_like(x.exp().t())
        state[0] = x[:, 0]
        return state

    same(filled, normal(4, 6))


# ---- copies ------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["same", "converted"])
def test_views_of_a_copy_have_the_memory_order_of_its_destination(dtype: Any) -> None:
    def copied(x: Any) -> Any:
        made = torch.zeros(6, 4, dtype=dtype)
        made[:] = x.t()
        return made.view(24) * 2

    same(copied, normal(4, 6))


# ---- layers whose results nothing reads --------------------------------------------------------
class Unread(nn.Module):
    """A norm at the end, which this head of a model leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        total = self.linear(x) + x
        self.norm(total)
        return total


def test_a_norm_whose_result_nothing_reads_has_no_gradients() -> None:
    module = Unread()
    compiled(module)(normal(4, 8)).sum().backward()
    assert module.linear.weight.grad is not None
    assert module.norm.weight.grad is None and module.norm.bias.grad is None


# ---- warnings ----------------------------------------------------------------------------------
def test_there_is_no_warning_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left, "_WARNED", set())

    def masked(x: Any) -> Any:
        empty = torch.tensor([])
        return x * x.new_ones(4, 6, dtype=torch.bool) + torch.full_like(x, 2.0), empty * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(masked)(normal(4, 6))
