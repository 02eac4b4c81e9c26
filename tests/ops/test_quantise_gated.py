"""swiglu_quantise: the bits of swiglu and quantise after each other."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft
from candidates import by

torch = pytest.importorskip("torch")

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
E4M3 = torch.float8_e4m3fn


def tensor(*shape: int, dtype: Any = F32, seed: int = 1) -> Any:
    return 2 * draw.seeded(seed).normal(*shape).to(dtype)


def compare(
    gate: Any, up: Any = None, dtype: Any = torch.int8, group: int | None = None, name: str = ""
) -> None:
    if name:
        made = by(name, "swiglu_quantise", gate, up, dtype, group)
    else:
        made = weft.ops.swiglu_quantise(gate, up, dtype, group)
    want = weft.ops.quantise(weft.ops.swiglu(gate, up), dtype, group)
    assert made[0].dtype is dtype and made[0].shape == want[0].shape
    assert torch.equal(made[0].view(torch.uint8), want[0].view(torch.uint8))
    assert torch.equal(made[1], want[1])


@pytest.mark.parametrize("dtype", [torch.int8, E4M3])
@pytest.mark.parametrize("of", [F32, F16, BF16])
@pytest.mark.parametrize("name", ["resident", "two ops"])
def test_both_ways(name: str, of: Any, dtype: Any) -> None:
    compare(tensor(3, 64, dtype=of), tensor(3, 64, dtype=of, seed=2), dtype, None, name)


@pytest.mark.parametrize("group", [None, 32])
def test_a_packed_tensor(group: int | None) -> None:
    compare(tensor(5, 2, 192, dtype=BF16), group=group, name="resident")


def test_it_is_near_the_product_in_float64() -> None:
    gate, up = tensor(4, 256), tensor(4, 256, seed=2)
    q, scale = weft.ops.swiglu_quantise(gate, up, torch.int8)
    want = torch.nn.functional.silu(gate.double()) * up.double()
    assert ((q.double() * scale - want).abs() <= 0.501 * scale).all()


def test_layouts() -> None:
    """Rows with gaps and rows that begin anywhere; others are copied by swiglu."""
    compare(*tensor(6, 64, dtype=F16).chunk(2, -1))
    compare(tensor(3, 18, dtype=F16))
    compare(tensor(32, 6).t(), tensor(6, 32))
    compare(tensor(5, 32), tensor(1, 32, seed=2).expand(5, 32))
    assert weft.ops.swiglu_quantise(tensor(0, 64), None, torch.int8)[1].shape == (0, 1)


def test_one_launch() -> None:
    function = weft.ops.swiglu_quantise.op
    used = function.choice(function.request(tensor(8, 128, dtype=BF16), None, torch.int8)).used
    assert used.name == "resident" and len(used.build().steps) == 1


def test_fake_tensors() -> None:
    q, scale = torch.ops.weft.swiglu_quantise(tensor(2, 128).to("meta"), None, E4M3, 32)
    assert q.shape == (2, 64) and q.dtype is E4M3 and scale.shape == (2, 2)


@pytest.mark.parametrize(
    ("gate", "up", "group", "words"),
    [
        (torch.zeros(2, 7), None, None, "must be even"),
        (torch.zeros(2, 8), torch.zeros(2, 6), None, "one shape and dtype"),
        (torch.zeros(2, 8), torch.zeros(2, 8).half(), None, "one shape and dtype"),
        (torch.zeros(2, 8).int(), None, None, "'gate' has a dtype"),
        (torch.zeros(2, 0), None, None, "at least one element"),
        (torch.zeros(2, 64), None, 64, "does not consist of such groups"),
    ],
)
def test_what_is_refused(gate: Any, up: Any, group: int | None, words: str) -> None:
    with pytest.raises(weft.ArgumentError, match=words):
        weft.ops.swiglu_quantise(gate, up, torch.int8, group)


def test_no_findings() -> None:
    with weft.sanitize() as session:
        weft.ops.swiglu_quantise(tensor(3, 88, dtype=F16), None, torch.int8)
    assert not session.findings
