"""The backend "weft" with idioms of public models: results and gradients equal eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from compiled_models import normal, same  # noqa: E402


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
