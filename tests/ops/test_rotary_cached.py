"""rotary_cached: heads of new tokens, normed and turned; what it stores in the cache."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.ops.core import library  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 1e-6, F16: 2e-3, BF16: 1e-2}
EPS = 1e-5


def arguments(
    dtype: Any,
    heads: int = 3,
    kv_heads: int = 2,
    size: int = 16,
    pairs: int = 8,
    norm: bool = False,
) -> dict[str, Any]:
    """A call for three tokens; the cache has two pages of four slots."""
    stream = draw.seeded(1)
    cache = (2, 4, kv_heads, size)
    angles = stream.normal(10, pairs) if pairs else None
    return {
        "qkv": stream.normal(3, (heads + 2 * kv_heads) * size).to(dtype),
        "positions": torch.tensor([0, 9, 4], dtype=torch.int32),
        "slots": torch.tensor([5, -1, 2], dtype=torch.int32),
        "keys": torch.full(cache, 7.0, dtype=dtype),
        "values": torch.full(cache, 7.0, dtype=dtype),
        "cos": None if angles is None else angles.cos(),
        "sin": None if angles is None else angles.sin(),
        "q_weight": (1 + stream.normal(size)).to(dtype) if norm else None,
        "k_weight": (1 + stream.normal(size)).to(dtype) if norm else None,
        "heads": heads,
        "eps": EPS,
    }


def called(given: dict[str, Any]) -> Any:
    return library.call("rotary_cached")(*given.values())


def expected(given: dict[str, Any]) -> list[Any]:
    """Queries, keys and values in float64, in the notation of complex numbers."""
    kv_heads, size = given["keys"].shape[2:]
    heads = given["qkv"].double().view(3, -1, size)
    found = []
    for x, weight in zip(
        heads.split((given["heads"], kv_heads, kv_heads), 1),
        (given["q_weight"], given["k_weight"], None),
        strict=True,
    ):
        if weight is not None:
            x = torch.nn.functional.rms_norm(x, (size,), weight.double(), EPS)
        if given["cos"] is not None and len(found) < 2:
            n = given["cos"].shape[1]
            turn = torch.complex(given["cos"].double(), given["sin"].double())
            turned = torch.complex(x[..., :n], x[..., n : 2 * n])
            turned = turned * turn[given["positions"].long()][:, None]
            x = torch.cat((turned.real, turned.imag, x[..., 2 * n :]), -1)
        found.append(x)
    return found


CASES: dict[str, Any] = {
    "float32": {"dtype": F32},
    "normed": {"dtype": BF16, "norm": True},
    "learned positions": {"dtype": F16, "pairs": 0},
    "a part of each head": {"dtype": F32, "size": 24, "pairs": 5, "norm": True},
    "heads of 80": {"dtype": F16, "size": 80, "pairs": 40, "heads": 2, "kv_heads": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_heads_and_cache(case: str) -> None:
    given = arguments(**CASES[case])
    found, dtype = called(given), CASES[case]["dtype"]
    for got, want in zip(found, expected(given), strict=True):
        assert got.dtype is dtype
        assert (got.double() - want).norm() <= LIMITS[dtype] * want.norm()
    for cache, new in ((given["keys"], found[1]), (given["values"], found[2])):
        rows = cache.view(8, *cache.shape[2:])
        assert torch.equal(rows[5], new[0]) and torch.equal(rows[2], new[2])
        left = [i for i in range(8) if i not in (5, 2)]
        assert (rows[left] == 7.0).all()


def test_rows_with_gaps_and_no_tokens() -> None:
    given = arguments(F32)
    want = called(given)
    wide = torch.cat((given["qkv"], given["qkv"]), 1)[:, : given["qkv"].shape[1]]
    for got, true in zip(called({**given, "qkv": wide}), want, strict=True):
        assert torch.equal(got, true)
    none = {"qkv": wide[:0], "positions": given["positions"][:0], "slots": given["slots"][:0]}
    assert [list(x.shape) for x in called({**given, **none})] == [[0, n, 16] for n in (3, 2, 2)]


def test_no_findings() -> None:
    given = arguments(BF16, norm=True)
    with weft.sanitize() as session:
        called(given)
    assert not session.findings


INT = torch.int32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qkv": torch.zeros(3, 111)}, r"does not have 3 \+ 2 \+ 2 heads of 16"),
        ({"qkv": torch.zeros(3, 112).double()}, "'qkv' has a dtype"),
        ({"qkv": torch.zeros(112, 3).T}, "not contiguous"),
        ({"values": torch.zeros(2, 4, 2, 8)}, "keys and values do not fit"),
        ({"keys": torch.zeros(2, 4, 2, 16).half()}, "keys and values do not fit"),
        ({"positions": torch.zeros(3)}, "positions must be a contiguous tensor of int32"),
        ({"slots": torch.zeros(2, dtype=INT)}, r"slots must be .* \[3\]"),
        ({"sin": None}, "cos and sin do not fit heads of 16"),
        ({"cos": torch.zeros(10, 9), "sin": torch.zeros(10, 9)}, "n at most 8"),
        ({"q_weight": torch.ones(8)}, "q_weight has"),
    ],
)
def test_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        called({**arguments(F32), **change})
