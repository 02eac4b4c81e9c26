"""Optimisers: torch's results, states and checkpoints, on lists of ragged tensors."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.frontends import launches  # noqa: E402
from weft.frontends.addresses import extent  # noqa: E402
from weft.ops.core import source  # noqa: E402
from weft.ops.graph.watch import Watch  # noqa: E402

OPTIONS = {
    "adamw": ("AdamW", {"lr": 1e-2, "weight_decay": 0.1}),
    "adamw without decay": ("AdamW", {"lr": 1e-2, "betas": (0.5, 0.9), "weight_decay": 0.0}),
    "adamw, amsgrad, maximize": ("AdamW", {"amsgrad": True, "maximize": True}),
    "adam": ("Adam", {"lr": 1e-2, "weight_decay": 0.1, "eps": 1e-3}),
    "adam without momentum": ("Adam", {"betas": (0.0, 0.99)}),
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd, decay, maximize": ("SGD", {"lr": 0.1, "weight_decay": 0.2, "maximize": True}),
    "sgd, momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd, dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "sgd, nesterov": ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True}),
}
SIZES = ((), (0,), (1,), (3,), (2, 8), (31,), (7, 19), (1024,), (1, 5, 3))


def ragged(rng: random.Random, dtype: Any = torch.float32) -> list[Any]:
    """Parameters of odd sizes: dense, misaligned, transposed, with gaps."""
    made = []
    for shape in rng.sample(SIZES, len(SIZES)):
        x = draw.seeded(rng.randrange(2**31)).normal(shape)
        x, way = x.to(dtype), rng.randrange(4)
        if way == 1:
            x = torch.empty(x.numel() + 1, dtype=dtype)[1:].view(shape).copy_(x)
        elif way == 2 and x.dim() == 2:
            x = x.t()
        elif way == 3 and x.dim() and x.numel():
            x = torch.stack([x, x], -1)[..., 0]
        made.append(torch.nn.Parameter(x))
    return made


def doubles(params: list[Any]) -> list[Any]:
    return [torch.nn.Parameter(p.detach().double().contiguous()) for p in params]


def set_gradients(rng: random.Random, *lists: list[Any]) -> None:
    """The same gradients for all lists; some are missing, some have other strides."""
    for params in zip(*lists, strict=True):
        made = draw.seeded(rng.randrange(2**31))
        grad = made.normal(params[0].shape).to(params[0].dtype)
        if grad.dim() == 2 and rng.random() < 0.3:
            grad = grad.t().contiguous().t()
        missing = rng.random() < 0.2
        for p in params:
            p.grad = None if missing else grad.to(p.dtype, copy=True)


def furthest(ours: list[Any], theirs: list[Any], floor: float = 1.0) -> float:
    """The largest difference, relative to numbers of at least `floor`."""
    pairs = [(a.detach().double(), b.detach().double()) for a, b in zip(ours, theirs, strict=True)]
    return max(
        float(((a - b).abs() / b.abs().clamp(min=floor)).max()) for a, b in pairs if a.numel()
    )


@pytest.mark.draws
@pytest.mark.parametrize("subject", OPTIONS)
def test_twenty_steps(subject: str, seed: str) -> None:
    """Within two roundings per step of torch in double precision."""
    name, options = OPTIONS[subject]
    rng = random.Random(f"{seed} {subject}")
    ours = ragged(rng)
    theirs = doubles(ours)
    mine = getattr(weft.optim, name)(ours, **options)
    reference = getattr(torch.optim, name)(theirs, **options)
    for _ in range(20):
        set_gradients(rng, ours, theirs)
        mine.step()
        reference.step()
    assert furthest(ours, theirs) < 20 * 2 * 2**-23
    for p, q in zip(ours, theirs, strict=True):
        state, expected = mine.state[p], reference.state[q]
        assert set(state) == set(expected)
        for key, value in expected.items():
            torch.testing.assert_close(state[key].double(), value.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("subject", ["adamw, amsgrad, maximize", "sgd, dampening"])
def test_checkpoints_load_both_ways(subject: str) -> None:
    name, options = OPTIONS[subject]
    made = draw.seeded(4)
    ours = [torch.nn.Parameter(made.normal(n)) for n in (1, 0, 31, 130)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    mine = getattr(weft.optim, name)(ours, **options)
    other = getattr(torch.optim, name)(theirs, **options)

    def steps(*optimisers: Any) -> None:
        for p, q in zip(ours, theirs, strict=True):
            p.grad = made.normal(p.shape)
            q.grad = p.grad.clone()
        for optimiser in optimisers:
            optimiser.step()

    def copied(values: list[Any], to: list[Any]) -> None:
        with torch.no_grad():
            for p, q in zip(values, to, strict=True):
                q.copy_(p)

    steps(mine)
    steps(mine)
    copied(ours, theirs)
    other.load_state_dict(copy.deepcopy(mine.state_dict()))  # torch shares states
    steps(mine, other)
    assert furthest(ours, theirs) < 1e-6
    steps(other)
    copied(theirs, ours)
    mine.load_state_dict(other.state_dict())
    steps(mine, other)
    assert furthest(ours, theirs) < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_parameters_of_16_bits(dtype: Any) -> None:
    """States have the dtype of the parameter, as torch's."""
    rng = random.Random(5)
    ours = ragged(rng, dtype)
    theirs = doubles(ours)
    mine = weft.optim.AdamW(ours, lr=1e-2)
    reference = torch.optim.AdamW(theirs, lr=1e-2)
    for _ in range(2):
        set_gradients(rng, ours, theirs)
        mine.step()
        reference.step()
    assert {s["exp_avg"].dtype for s in mine.state.values()} == {dtype}
    assert furthest(ours, theirs) < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_master_weights(name: str) -> None:
    """Small updates add up in float32, and survive a checkpoint."""
    options = {"lr": 1e-4} if name == "AdamW" else {"lr": 1e-4, "momentum": 0.9}
    p = torch.nn.Parameter(torch.ones(300, dtype=torch.bfloat16))
    q = torch.nn.Parameter(torch.ones(300))
    mine = getattr(weft.optim, name)([p], **options, master_weights=True)
    reference = getattr(torch.optim, name)([q], **options)
    for step in range(12):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
        mine.step()
        reference.step()
        if step == 5:
            saved = copy.deepcopy(mine.state_dict())
            mine = getattr(weft.optim, name)([p], **options)
            mine.load_state_dict(saved)
    master = mine.state[p]["master"]
    assert master.dtype == torch.float32
    torch.testing.assert_close(master, q.detach(), rtol=1e-6, atol=1e-6)
    assert torch.equal(p.detach(), master.to(torch.bfloat16))


def test_groups_dtypes_and_new_states() -> None:
    """Each group has its options; a replaced state is used, not the one before."""
    a, b = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5))
    c = torch.nn.Parameter(torch.ones(9, dtype=torch.bfloat16))
    mine = weft.optim.SGD([{"params": [a, c]}, {"params": [b], "lr": 1.0}], lr=0.5, momentum=0.5)
    for p in (a, b, c):
        p.grad = torch.ones_like(p)
    mine.step()
    assert a[0] == 0.5 and b[0] == 0.0 and c[0] == 0.5
    mine.state[b]["momentum_buffer"] = torch.full((5,), 4.0)
    mine.add_param_group({"params": [d := torch.nn.Parameter(torch.zeros(2))], "lr": 2.0})
    d.grad = torch.ones(2)
    mine.step()
    assert a[0] == -0.25 and b[0] == -3.0 and d[0] == -2.0
    mine.zero_grad()
    mine.step()
    assert a[0] == -0.25  # no gradient, no change


def test_learning_rate_scale_and_infinite_gradients_on_the_device() -> None:
    """A CUDA graph can hold a learning rate in memory, a scaled loss, a skipped step."""
    p = torch.nn.Parameter(torch.ones(4))
    rate = torch.tensor(0.5)
    mine = weft.optim.AdamW([p], lr=rate, weight_decay=0.0)
    p.grad = torch.ones(4)
    mine.step()
    assert abs(p[0].item() - 0.5) < 1e-6
    rate.fill_(0.25)
    mine.grad_scale, mine.found_inf = torch.tensor(8.0), torch.tensor(0.0)
    p.grad = torch.full((4,), 8.0)
    mine.step()
    assert abs(p[0].item() - 0.25) < 1e-6
    mine.found_inf = torch.tensor(1.0)
    p.grad = torch.full((4,), torch.inf)
    mine.step()
    assert abs(p[0].item() - 0.25) < 1e-6 and mine.state[p]["step"] == 2


def test_closures_schedulers_and_hooks() -> None:
    p = torch.nn.Parameter(torch.tensor([2.0]))
    mine = weft.optim.SGD([p], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(mine, 1, gamma=0.5)
    calls: list[str] = []
    mine.register_step_post_hook(lambda *args: calls.append("after"))

    def closure() -> Any:
        mine.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert mine.step(closure) == 4.0
    schedule.step()
    assert mine.step(closure).item() == pytest.approx(2.56)
    assert p.item() == pytest.approx(1.6 - 0.05 * 3.2) and calls == ["after", "after"]


def test_special_values() -> None:
    """NaN spreads to its element only; an infinite parameter without decay stays infinite."""
    p = torch.nn.Parameter(torch.tensor([1.0, torch.inf, 1.0, 1.0]))
    p.grad = torch.tensor([torch.nan, 1.0, torch.inf, 1.0])
    weft.optim.AdamW([p], weight_decay=0.0).step()
    assert p[0].isnan() and p[1].isinf() and p[2].isnan() and p[3].isfinite()


# ---- states of 8 bits --------------------------------------------------------------------------
CODES = """
#include "dynamic.cuh"
extern "C" __global__ void tables(float* with_sign, float* without) {
    __shared__ WithSign a;
    __shared__ WithoutSign b;
    int c = threadIdx.x;
    a.begin(c), b.begin(c);
    __syncthreads();
    with_sign[c] = a.decode(c), without[c] = b.decode(c);
}
extern "C" __global__ void encoded(const float* x, int* with_sign, int* without) {
    __shared__ WithSign a;
    __shared__ WithoutSign b;
    int i = blockIdx.x * 256 + threadIdx.x;
    a.begin(threadIdx.x), b.begin(threadIdx.x);
    __syncthreads();
    with_sign[i] = a.encode(x[i]), without[i] = b.encode(fabsf(x[i]));
}
"""


def test_codes_are_the_nearest() -> None:
    module = weft.cuda(CODES, include=[source.HOME.parent / "optim" / "cuda"])
    with_sign, without = torch.zeros(256), torch.zeros(256)
    module.tables[1, 256](with_sign, without)
    assert (without.diff() > 0).all() and without[0] == 0.0 and abs(without[255] - 1.0) < 1e-6
    assert (with_sign[:128].diff() > 0).all() and torch.equal(with_sign[128:], -with_sign[:128])
    made = draw.seeded(1)
    x = torch.cat([made.uniform(512), 10 ** (-8 * made.uniform(509))])
    x = torch.cat(
        [x * torch.where(made.uniform(1021) < 0.5, -1, 1), torch.tensor([0.0, 1.0, -1.0])]
    )
    codes = [torch.zeros(1024, dtype=torch.int32) for _ in range(2)]
    module.encoded[4, 256](x, *codes)
    for values, table, chosen in ((x, with_sign, codes[0]), (x.abs(), without, codes[1])):
        nearest = (values[:, None] - table).abs().min(1).values
        error = (values - table[chosen.long()]).abs()
        inside = values.abs() >= table[1]  # below, numbers become 0 or the least one
        assert inside.sum() > 800 and (error <= nearest * 1.001 + 1e-9)[inside].all()
        assert (chosen[values == 0] == 0).all() and (codes[1][x != 0] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_of_8_bits(dtype: Any) -> None:
    """After 10 steps, updates differ by a few percent from those with exact states."""
    made = draw.seeded(2)
    start = [made.normal(n).to(dtype) for n in (1, 255, 256, 700, 0)]
    ours = [torch.nn.Parameter(x.clone()) for x in start]
    theirs = [torch.nn.Parameter(x.float().clone()) for x in start]
    mine = weft.optim.AdamW(ours, lr=1e-2, state_bits=8, master_weights=True)
    reference = torch.optim.AdamW(theirs, lr=1e-2)
    for step in range(10):
        for p, q in zip(ours, theirs, strict=True):
            q.grad = made.normal(p.shape).to(dtype).float()
            p.grad = q.grad.to(dtype)
        mine.step()
        reference.step()
        if step == 4:
            saved = copy.deepcopy(mine.state_dict())
            mine = weft.optim.AdamW(ours, lr=1e-2)
            mine.load_state_dict(saved)
    for p, q, x in zip(ours, theirs, start, strict=True):
        state = mine.state[p]
        assert state["exp_avg"].dtype == torch.uint8 and state["step"] == 10
        got = state["master"] if dtype == torch.bfloat16 else p.detach()
        moved, expected = got - x.float(), q.detach() - x.float()
        assert (moved - expected).norm() <= 0.05 * expected.norm()


def test_states_of_8_bits_are_refused_elsewhere() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    with pytest.raises(weft.ArgumentError, match="state_bits= must be 8 or None"):
        weft.optim.AdamW([p], state_bits=4)
    with pytest.raises(weft.ArgumentError, match="AMSGrad"):
        weft.optim.AdamW([p], state_bits=8, amsgrad=True).step()


# ---- clipping ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limit", "order"), [(0.5, 2.0), (1e4, 2.0), (2.0, 1.0), (0.1, float("inf"))]
)
def test_clipping(limit: float, order: float) -> None:
    rng = random.Random(f"{limit} {order}")
    ours = [*ragged(rng), *ragged(rng, torch.bfloat16)]
    set_gradients(rng, ours)
    for p in ours[:3]:  # gradients with gaps
        if p.grad is not None and p.dim():
            p.grad = torch.stack([p.grad, p.grad], -1)[..., 0]
    theirs = doubles(ours)
    for p, q in zip(ours, theirs, strict=True):
        q.grad = None if p.grad is None else p.grad.double()
    total = weft.optim.clip_grad_norm_(ours, limit, order)
    some = [q for q in theirs if q.numel()]  # torch knows no largest element of an empty tensor
    expected = torch.nn.utils.clip_grad_norm_(some, limit, order)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    pairs = [(p.grad, q.grad) for p, q in zip(ours, theirs, strict=True) if p.grad is not None]
    assert furthest([a for a, _ in pairs], [b for _, b in pairs], floor=1e-3) < 2**-8


def test_clipping_in_the_step() -> None:
    """The factor is applied as gradients are read; they stay as they are."""
    rng = random.Random(8)
    ours = ragged(rng)
    theirs = doubles(ours)
    mine = weft.optim.SGD(ours, lr=0.1, momentum=0.9, max_grad_norm=0.7)
    reference = torch.optim.SGD(theirs, lr=0.1, momentum=0.9)
    assert mine.grad_norm is None
    for _ in range(3):
        set_gradients(rng, ours, theirs)
        before = [None if p.grad is None else p.grad.clone() for p in ours]
        mine.step()
        expected = torch.nn.utils.clip_grad_norm_(theirs, 0.7)
        reference.step()
        assert mine.grad_norm.item() == pytest.approx(expected.item(), rel=1e-6)
        assert all(b is None or torch.equal(p.grad, b) for p, b in zip(ours, before, strict=True))
    assert furthest(ours, theirs) < 1e-6


@pytest.mark.sim
def test_a_step_with_clipping_is_two_launches_without_a_wait() -> None:
    """One for the norm, one for the step of all parameters; nothing is read by the host."""
    params = [torch.nn.Parameter(torch.ones(n)) for n in (3, 700, 5000)]
    rate = torch.tensor(0.1)
    optimiser = weft.optim.AdamW(params, lr=rate, max_grad_norm=1.0)
    for p in params:
        p.grad = torch.ones_like(p)
    optimiser.step()
    names: list[str] = []

    def record(name: str, launch: Any, arguments: Any) -> None:
        names.append(name)

    launches.recorders.append(record)
    try:
        for count in (2, 4):
            before = params[0].detach().clone()
            rate.mul_(0.5)
            with Watch(True):  # raises where a value is read
                optimiser.step()
            assert len(names) == count and not torch.equal(params[0], before)
    finally:
        launches.recorders.remove(record)


def test_clipping_of_special_values() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    assert weft.optim.clip_grad_norm_(p, 1.0) == 0.0
    p.grad = torch.tensor([1.0, torch.nan, 2.0])
    assert weft.optim.clip_grad_norm_([p], 1.0).isnan() and p.grad.isnan().all()
    p.grad = torch.tensor([1.0, torch.inf, 2.0])
    with pytest.raises(RuntimeError, match="not finite"):
        weft.optim.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    with pytest.raises(weft.ArgumentError, match="no such norm"):
        weft.optim.clip_grad_norm_([p], 1.0, 3.0)
    q = torch.nn.Parameter(torch.empty(0))
    q.grad = torch.empty(0)
    assert weft.optim.clip_grad_norm_([q], 1.0) == 0.0


def test_a_kernel_reaches_declared_memory_only() -> None:
    """Addresses in a table are checked on the simulated GPU like all others."""
    kernel = weft.cuda("__global__ void f(float** table) { table[0][threadIdx.x] += 1.0f; }").f
    x = torch.zeros(32)
    table = torch.tensor([x.data_ptr()])
    memory = [extent(x, "x")]
    kernel[1, 32].reaching(memory, table)
    assert x.sum() == 32
    with pytest.raises(weft.IllegalAddress):
        kernel[1, 32].reaching([], table)
    with pytest.raises(weft.IllegalAddress):
        kernel[1, 33].reaching(memory, table)
    with pytest.raises(weft.LaunchError, match="a grid needs blocks"):
        kernel[0, 32].reaching(memory, table)


def test_refusals() -> None:
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    p.grad = torch.ones_like(p)
    with pytest.raises(weft.ArgumentError, match="dtype"):
        weft.optim.SGD([p], lr=0.1).step()
    q = torch.nn.Parameter(torch.ones(3))
    q.grad = torch.ones(3).to_sparse()
    with pytest.raises(weft.ArgumentError, match="sparse"):
        weft.optim.Adam([q]).step()
    with pytest.raises(ValueError, match="learning rate"):
        weft.optim.AdamW([q], lr=-1.0)
    with pytest.raises(RuntimeError, match="differentiable"):
        weft.optim.AdamW([q], differentiable=True)
    with pytest.raises(AttributeError, match="there are"):
        _ = weft.optim.Lion


def test_sanitized() -> None:
    rng = random.Random(1)
    ours = ragged(rng)
    with weft.sanitize() as session:
        for optimiser in (
            weft.optim.AdamW(ours, amsgrad=True),
            weft.optim.SGD(ours, 0.1, 0.9),
            weft.optim.Adam(ours, state_bits=8),
        ):
            set_gradients(rng, ours)
            weft.optim.clip_grad_norm_(ours, 0.5)
            optimiser.step()
    assert not session.findings
