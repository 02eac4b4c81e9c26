"""Random numbers: Philox as cuRAND's, distributions, dropout and its gradient, repeatability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.random import threads  # noqa: E402

CURAND = """
#include <curand_kernel.h>
#include <weft/philox.cuh>

using namespace weft;

extern "C" __global__ void both(unsigned long long seed, unsigned long long subsequence,
                                unsigned long long offset, unsigned* ours, unsigned* theirs) {
    unsigned i = threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, subsequence + i, offset, &state);
    for (int call = 0; call < 2; ++call) {
        uint4 r = philox(seed, subsequence + i, offset / 4 + call), c = curand4(&state);
        ((uint4*)ours)[2 * i + call] = r, ((uint4*)theirs)[2 * i + call] = c;
    }
}
extern "C" __global__ void normals(unsigned long long seed, float* ours, float* theirs) {
    unsigned i = threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    uint4 r = philox(seed, i, 0);
    float2 a = normal(r.x, r.y), b = normal(r.z, r.w);
    ((float4*)ours)[2 * i] = {a.x, a.y, b.x, b.y};
    ((float4*)theirs)[2 * i] = curand_normal4(&state);
    r = philox(seed, i, 1);
    ((float4*)ours)[2 * i + 1] = {uniform(r.x), uniform(r.y), uniform(r.z), uniform(r.w)};
    ((float4*)theirs)[2 * i + 1] = curand_uniform4(&state);
}
"""


@pytest.fixture(scope="module")
def curand() -> Any:
    pytest.importorskip("nvidia.cu13")
    return weft.cuda(CURAND)


@pytest.mark.parametrize(
    "start",
    [(0, 0, 0), (42, 7, 4), (2**64 - 1, 2**40, 2**36), (0x123456789ABCDEF, 2**32 - 8, 2**34 - 4)],
)
def test_bits_are_those_of_curand(curand: Any, start: tuple[int, int, int]) -> None:
    ours, theirs = np.zeros(256, np.uint32), np.ones(256, np.uint32)
    curand.both[1, 32](*start, ours, theirs)
    assert (ours == theirs).all() and len(set(ours.tolist())) > 250


def test_uniform_and_normal_are_those_of_curand(curand: Any) -> None:
    ours, theirs = np.zeros(256, np.float32), np.ones(256, np.float32)
    curand.normals[1, 32](99, ours, theirs)
    assert (ours.view(np.uint32) == theirs.view(np.uint32)).all()


# ---- the sequence of torch's kernels -----------------------------------------------------------
def bits(seed: int, subsequence: Any, call: Any) -> np.ndarray:
    """Philox4x32-10 in NumPy: [..., 4] numbers."""
    mask = np.uint64(2**32 - 1)
    subsequence, call = np.broadcast_arrays(np.uint64(subsequence), np.uint64(call))
    c = [call & mask, call >> np.uint64(32), subsequence & mask, subsequence >> np.uint64(32)]
    key = [seed % 2**32, seed >> 32]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high0, high1 = p0 >> np.uint64(32), p1 >> np.uint64(32)
        c = [
            high1 ^ c[1] ^ np.uint64(key[0]),
            p1 & mask,
            high0 ^ c[3] ^ np.uint64(key[1]),
            p0 & mask,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return np.stack(c, -1).astype(np.uint32)


def uniform(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)


def test_uniform_numbers_have_the_order_of_torch() -> None:
    """Element i: thread i % T, its number i / T; four numbers are a call of Philox."""
    n, seed, offset = 5000, 2**63 + 11, 8
    y = library.call("seeded_uniform")(torch.empty(n), 0.0, 1.0, seed - 2**64, offset)
    i, count = np.arange(n), 256 * threads.blocks(n, named("sim:h200"))
    drawn = bits(seed, i % count, offset // 4 + i // count // 4)[i, i // count % 4]
    np.testing.assert_array_equal(y.numpy(), uniform(drawn))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [1, 7, 8, 255, 4099])
def test_dropout_has_the_order_of_torch(dtype: Any, n: int) -> None:
    """16-byte vector g: thread g % T; each four elements are a call of Philox."""
    seed, p = 5, 0.3
    x = draw.seeded(n).normal(n).to(dtype)
    y = library.call("seeded_dropout")(x, p, seed, 12)
    i, group = np.arange(n), 16 // x.itemsize
    vector, count = i // group, 256 * threads.blocks(n, named("sim:h200"))
    call = 3 + vector // count * (group // 4) + i % group // 4
    kept = uniform(bits(seed, vector % count, call)[i, i % 4]) < np.float32(1 - p)
    expected = x.float() * torch.from_numpy(kept) * np.float32(1 / np.float64(np.float32(1 - p)))
    assert torch.equal(y, expected.to(dtype))


def test_a_small_grid_repeats_itself() -> None:
    """More vectors than torch has threads: the numbers continue in the same subsequences."""
    step = library.function("seeded_dropout")
    request = step.request(torch.empty(9000), 0.5, 1, 0, None)
    plan = step.choice(request).used.build().steps[0]
    x, y = torch.ones(9000), torch.empty(9000)
    count = 2  # blocks of torch's grid; the last arguments are those of 1 - p
    plan.kernel[plan.grid, plan.block](x, y, None, 1, 0, 9000, count, *plan.args[-2:])
    i = np.arange(9000)
    vector = i // 4
    kept = bits(1, vector % (256 * count), vector // (256 * count))[i, i % 4] < plan.args[-2]
    np.testing.assert_array_equal(y.numpy() != 0, kept)


# ---- dropout -----------------------------------------------------------------------------------
def test_dropout_and_its_gradient_have_one_mask() -> None:
    torch.manual_seed(1)
    x = draw.seeded(1).normal(40, 25).requires_grad_()
    y = weft.ops.dropout(x, 0.25)
    kept = y != 0
    assert 0.65 < kept.float().mean() < 0.85
    torch.testing.assert_close(y[kept], x[kept] / 0.75)
    weights = draw.seeded(2).normal(25, 40).t()  # the gradient is not contiguous
    y.backward(weights)
    torch.testing.assert_close(x.grad, torch.where(kept, weights / 0.75, 0.0))


def test_only_numbers_are_saved_for_backward() -> None:
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        weft.ops.dropout(torch.ones(64, requires_grad=True), 0.5)
    assert not saved


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.5, 0.9, 1.0 - 1e-6, 1.0])
def test_the_threshold_is_where_uniform_reaches_the_probability(p: float) -> None:
    from weft.ops.families.random.dropout import threshold

    keep = np.float32(1.0 - p)
    edge = threshold(p)
    below, above = max(edge - 1, 0), min(edge, 2**32 - 1)
    assert edge == 0 or uniform(np.array([below], np.uint32))[0] < keep
    assert uniform(np.array([above], np.uint32))[0] >= keep


def test_layouts_do_not_change_the_mask() -> None:
    dropout = library.call("seeded_dropout")
    x = draw.seeded(2).normal(24, 6)
    expected = dropout(x, 0.5, 3, 0)
    assert torch.equal(dropout(x.t().contiguous().t(), 0.5, 3, 0), expected)
    shifted = torch.empty(145)[1:].view(24, 6).copy_(x)
    assert torch.equal(dropout(shifted, 0.5, 3, 0), expected)
    assert dropout(torch.empty(0, 4), 0.5, 3, 0).shape == (0, 4)
    wide = draw.seeded(2).normal(24, 12)[:, ::2]
    assert torch.equal(dropout(wide, 0.5, 3, 0) != 0, expected != 0)


def test_dropout_of_special_values_and_modes() -> None:
    x = torch.tensor([math.inf, math.nan, -1.0, 0.0] * 16)
    y = weft.ops.dropout(x, 0.5)
    assert y[0::4].isnan().any() and y[0::4].isinf().any() and y[1::4].isnan().all()
    assert weft.ops.dropout(x, 0.5, training=False) is x and weft.ops.dropout(x, 0.0) is x
    assert not weft.ops.dropout(torch.ones(9), 1.0).any()
    z = torch.ones(64)
    assert weft.ops.dropout(z, 0.5, inplace=True) is z and (z == 0).any()


def test_dropout_is_refused() -> None:
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(weft.ArgumentError, match="expected 0 to 1"):
            weft.ops.dropout(torch.ones(4), p)
    with pytest.raises(weft.ArgumentError, match="dtype"):
        weft.ops.dropout(torch.ones(4, dtype=torch.int64))
    with pytest.raises(weft.ArgumentError, match="generator"):
        weft.ops.dropout(torch.ones(4), generator=_CudaGenerator())


class _CudaGenerator:
    device = torch.device("cuda")


def test_dropout_with_torch() -> None:
    """opcheck, gradients of gradients, torch.compile and vmap."""
    dropout = library.call("seeded_dropout")
    assert dropout.verify(draw.seeded(1).normal(5, 7).requires_grad_(), 0.4, 3, 0).passed
    function = torch.compile(
        lambda v: weft.ops.dropout(v, 0.5), backend="aot_eager", fullgraph=True
    )
    x = torch.ones(128, requires_grad=True)
    first, second = function(x), function(x)
    assert not torch.equal(first, second)  # a compiled function draws anew in each call
    second.sum().backward()
    assert torch.equal(x.grad, second)
    batch = torch.ones(3, 64)
    same = torch.vmap(lambda v: weft.ops.dropout(v), randomness="same")(batch)
    different = torch.vmap(lambda v: weft.ops.dropout(v), randomness="different")(batch)
    assert torch.equal(same[0], same[1]) and not torch.equal(different[0], different[1])


# ---- distributions -----------------------------------------------------------------------------
def test_everything_is_repeatable() -> None:
    def drawn() -> list[Any]:
        return [
            weft.ops.rand(5, 3), weft.ops.randn(7, dtype=torch.bfloat16), weft.ops.randperm(9),
            weft.ops.uniform((4,), -1.0, 1.0), weft.ops.normal(1.0, 2.0, (3,)),
            weft.ops.bernoulli(torch.full((9,), 0.5)), weft.ops.dropout(torch.ones(9)),
        ]  # fmt: skip

    torch.manual_seed(7)
    first, again = drawn(), drawn()
    torch.manual_seed(7)
    assert all(map(torch.equal, first, drawn()))
    assert not torch.equal(first[0], again[0])
    generators = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    one, two = (weft.ops.rand(6, generator=g) for g in generators)
    assert torch.equal(one, two)


def test_moments() -> None:
    """Mean and deviation are within five standard errors."""
    torch.manual_seed(3)
    n = 20_000
    u, z = weft.ops.uniform((n,), 2.0, 6.0), weft.ops.normal(-1.0, 3.0, (n,))
    assert u.min() >= 2.0 and u.max() < 6.0
    assert abs(u.mean() - 4.0) < 5 * (4 / math.sqrt(12)) / math.sqrt(n)
    assert abs(z.mean() + 1.0) < 5 * 3 / math.sqrt(n)
    assert abs(z.std() - 3.0) < 5 * 3 / math.sqrt(2 * n)
    p = draw.seeded(1).uniform(n)
    b = weft.ops.bernoulli(p)
    assert abs(b.mean() - p.mean()) < 5 * 0.5 / math.sqrt(n)
    assert weft.ops.bernoulli(torch.tensor([0.0, 1.0] * 50)).view(50, 2).sum(0).tolist() == [0, 50]
    assert b.view(-1, 8).t().is_contiguous() is False
    assert weft.ops.bernoulli(p.view(-1, 8).t()).shape == (8, n // 8)


@pytest.mark.parametrize("n", [0, 1, 2, 100, 4096, 4097, 9001])
def test_permutations(n: int) -> None:
    torch.manual_seed(n)
    order = weft.ops.randperm(n)
    assert torch.equal(order.sort().values, torch.arange(n))
    if n >= 100:
        assert not torch.equal(order, weft.ops.randperm(n))
        # Places and values are unrelated: the correlation is about 1 / sqrt(n).
        both = torch.stack([order.double(), torch.arange(n).double()])
        assert abs(torch.corrcoef(both)[0, 1]) < 5 / math.sqrt(n)


def test_all_small_permutations_are_as_likely() -> None:
    torch.manual_seed(5)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(300):
        order = tuple(weft.ops.randperm(3).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6 and all(abs(c - 50) < 5 * math.sqrt(50) for c in counts.values())


def test_arguments_are_refused() -> None:
    for call in (
        lambda: weft.ops.rand(3, dtype=torch.int64),
        lambda: weft.ops.uniform((3,), 2.0, 1.0),
        lambda: weft.ops.normal(0.0, -1.0, (3,)),
        lambda: weft.ops.randperm(-1),
        lambda: weft.ops.randperm(3, dtype=torch.float32),
        lambda: weft.ops.bernoulli(torch.ones(3, dtype=torch.bool)),
    ):
        with pytest.raises(weft.ArgumentError, match=r"weft\.ops\."):
            call()


# ---- initial values ----------------------------------------------------------------------------
INITIALISERS = {
    "uniform_": (-1.0, 3.0),
    "normal_": (2.0, 0.5),
    "trunc_normal_": (0.5, 1.0, -1.0, 1.0),
    "kaiming_uniform_": (0.1, "fan_out"),
    "kaiming_normal_": (0, "fan_in", "relu"),
    "xavier_uniform_": (1.5,),
    "xavier_normal_": (),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers(name: str) -> None:
    """Mean and deviation are those of torch.nn.init."""
    torch.manual_seed(11)
    ours = torch.nn.Parameter(torch.empty(40, 25, 3))
    theirs = torch.empty(40, 25, 3)
    assert getattr(weft.init, name)(ours, *INITIALISERS[name]) is ours
    getattr(torch.nn.init, name)(theirs, *INITIALISERS[name])
    error = 6 * theirs.std() / math.sqrt(theirs.numel())
    assert abs(ours.mean() - theirs.mean()) < 2 * error and abs(ours.std() - theirs.std()) < error
    assert ours.max() <= theirs.max() + 4 * error + (1 if "normal" in name else 0)
    half = torch.empty(8, 8, dtype=torch.bfloat16).t()
    assert getattr(weft.init, name)(half, *INITIALISERS[name]).isfinite().all()


def test_initialisers_are_refused() -> None:
    with pytest.raises(weft.ArgumentError, match="two dimensions"):
        weft.init.xavier_uniform_(torch.empty(3))
    with pytest.raises(weft.ArgumentError, match="no such mode"):
        weft.init.kaiming_normal_(torch.empty(3, 3), mode="fan")


def test_sanitized() -> None:
    with weft.sanitize() as session:
        weft.ops.dropout(torch.ones(1003), 0.5)
        weft.ops.dropout(torch.ones(1003, dtype=torch.float16)[1:], 0.5)
        weft.ops.rand(1003), weft.ops.randn(5), weft.ops.bernoulli(torch.ones(77))
        weft.ops.randperm(777), weft.ops.randperm(5000)
    assert not session.findings
