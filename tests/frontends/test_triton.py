"""Triton kernels on CPU tensors: a kernel for each part of the language, against torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import draw
from folders import TESTS

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import weft  # noqa: E402
import weft.triton  # noqa: E402
from triton_kernels import features, nets  # noqa: E402
from weft.frontends import autotuning, clock  # noqa: E402
from weft.frontends.triton import pipeline  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
weft.triton.install(alone=True)  # also where there is a GPU


def uniform(*shape: int, seed: int = 0) -> Any:
    return draw.seeded(seed).uniform(*shape)


def close(got: Any, wanted: Any, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(got.double(), wanted.double(), rtol=tolerance, atol=tolerance)


# ---- launches --------------------------------------------------------------------------------
GRIDS = {
    "tuple": (4,),
    "list": [4],
    "function of the constants": lambda meta: (triton.cdiv(1000, meta["BLOCK"]),),
    "more programs than needed": (9, 1, 1),
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_grids(grid: Any) -> None:
    x, y, out = uniform(1000), uniform(1000, seed=1), torch.zeros(1000)
    nets.add[grid](x, y, out, 1000, BLOCK=256)
    assert torch.equal(out, x + y)


def test_three_dimensions() -> None:
    out = torch.zeros(2 * 3 * 4, dtype=torch.int32)
    features.grid_numbers[2, 3, 4](out)
    wanted = [100 * x + 10 * y + z for x in range(2) for y in range(3) for z in range(4)]
    assert out.tolist() == wanted


def test_empty_grid_does_nothing() -> None:
    out = torch.zeros(1, dtype=torch.int32)
    features.grid_numbers[0, 1, 1](out)
    assert out.tolist() == [0]


@pytest.mark.parametrize("warps", [1, 4, 16])
def test_warps(warps: int) -> None:
    x, out = uniform(5, 100), torch.zeros(5, 100)
    nets.softmax[(2,)](x, out, 100, 5, 100, BLOCK=128, num_stages=2, num_warps=warps)
    close(out, torch.softmax(x.double(), 1))


def test_scalars_of_every_width() -> None:
    out = torch.zeros(7, dtype=torch.float64)
    numbers = (-7, 2**31, 2**40, -(2**40), 2**63, 1.25)
    features.scalars[(1,)](out, *numbers, True, 0.5, 3, None)
    assert out.tolist() == [*map(float, numbers), 3.5]


def test_tuples() -> None:
    out = torch.zeros(2)
    features.tuples[(1,)](out, (torch.tensor([2.5]), 4), (3.0, (7,)))
    assert out.tolist() == [6.5, 21.0]


def test_hooks_and_metadata() -> None:
    seen: list[str] = []
    hook = triton.knobs.runtime.launch_enter_hook
    note = lambda metadata: seen.append(metadata.get()["name"])  # noqa: E731
    hook.add(note)
    try:
        compiled = nets.add[(1,)](*uniform(3, 8), 8, BLOCK=8)
    finally:
        hook.remove(note)
    assert seen == ["add"]
    assert compiled.n_regs > 0 and compiled.n_spills == 0
    assert ".visible .entry add(" in compiled.asm["ptx"]


def test_strided_views() -> None:
    a, out = uniform(64, 96), torch.zeros(32, 16)
    left, right = a[::2, :32], a[:64:2, 32:64].t()
    nets.matmul[(2,)](
        left[:, :32], right[:, ::2], out, 32, 16, 32,
        *left.stride(), right.stride(0), 2 * right.stride(1), *out.stride(),
        BM=16, BN=16, BK=16, GROUP=1, PRECISION="ieee", ACTIVATION="",
    )  # fmt: skip
    close(out, left.double() @ right[:, ::2].double(), 1e-5)


# ---- the language ----------------------------------------------------------------------------
def test_reductions() -> None:
    x, out = uniform(256), torch.zeros(7)
    features.reductions[(1,)](x, out, N=256)
    k = np.bitwise_xor.reduce((x * 10).int().numpy())
    wanted = [x.sum(), x.max(), x.min(), x.argmax(), x.argmin(), k, x.max()]
    close(out, torch.tensor([float(v) for v in wanted]), 1e-5)


def test_sums_by_axis() -> None:
    x, rows, cols = uniform(16, 64), torch.zeros(16), torch.zeros(64)
    features.axis_sums[(1,)](x, rows, cols, M=16, N=64)
    close(rows, x.double().sum(1))
    close(cols, x.double().sum(0))


def test_scans() -> None:
    x = uniform(128)
    sums, products, maps = torch.zeros(3, 128)
    features.scans[(1,)](x, sums, products, maps, N=128)
    d = x.double()
    close(sums, d.cumsum(0), 1e-5)
    close(products, (1 + d * 0.01).flip(0).cumprod(0).flip(0), 1e-5)
    wanted, value = [], 0.0
    for v in d.tolist():
        value = value * 0.5 + v
        wanted.append(value)
    close(maps, torch.tensor(wanted), 1e-5)


def test_sort_and_flip() -> None:
    x = uniform(64)
    up, down, flipped = torch.zeros(3, 64)
    features.sorting[(1,)](x, up, down, flipped, N=64)
    assert torch.equal(up, x.sort().values)
    assert torch.equal(down, x.sort(descending=True).values)
    assert torch.equal(flipped, x.flip(0))


def test_shapes() -> None:
    x, joined, gathered, transposed = uniform(64), *map(torch.zeros, (128, 64, 64))
    features.shapes[(1,)](x, joined, gathered, transposed, N=64)
    assert torch.equal(joined, torch.stack([x, -x], 1).flatten())
    assert torch.equal(gathered, x[torch.arange(64) * 7 % 64])
    assert torch.equal(transposed, x.view(4, 16).t().flatten())


def test_histogram() -> None:
    x = (uniform(3000) * 32).int()
    counts, bins = torch.zeros(2, 32, dtype=torch.int32)
    features.histogram[(12,)](x, counts, bins, 3000, BLOCK=256, BINS=32)
    wanted = torch.bincount(x, minlength=32).int()
    assert torch.equal(counts, wanted)
    assert torch.equal(bins, wanted)


def test_atomics() -> None:
    x = (uniform(1000) * 1000).int()
    out = torch.tensor([0, 1000, 0, 0, -1], dtype=torch.int32)
    half = torch.zeros(1, dtype=torch.float16)
    features.atomics[(4,)](x, out, half, 1000, BLOCK=256)
    v = x.numpy()
    ufuncs = (np.maximum, np.minimum, np.bitwise_or, np.bitwise_xor, np.bitwise_and)
    assert out.tolist() == [int(f.reduce(v)) for f in ufuncs]
    assert half.item() == 4


def test_random_numbers() -> None:
    """The integers are Philox's, 10 rounds, as its authors define it."""
    flat, normal = torch.zeros(2, 128)
    integers = torch.zeros(128, dtype=torch.int32)
    features.random[(1,)](flat, normal, integers, 42, N=128)
    assert integers.numpy().view(np.uint32).tolist() == [philox(i, 42) for i in range(128)]
    assert 0 <= flat.min() < 0.1 and 0.9 < flat.max() < 1
    assert abs(normal.mean()) < 0.3 and abs(normal.std() - 1) < 0.3


def philox(counter: int, seed: int) -> int:
    c, k = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


def test_functions_and_libdevice() -> None:
    x = uniform(128) * 4 + 0.5
    out = torch.zeros(11, 128)
    features.functions[(1,)](x, out, N=128)
    d = x.double()
    wanted = [
        d.exp(), d.log(), d.sin(), d.sqrt(), d.erf(), d.sigmoid(), d.floor(), d**1.5,
        (x * 0.1).double().asin(), d.lgamma().exp(), (x * 1e5).double().sin(),
    ]  # fmt: skip
    close(out, torch.stack(wanted), 2e-5)


@pytest.mark.skipif(
    triton.__version__ >= "3.9", reason="this release of Triton has no block pointers any more"
)
def test_block_pointers() -> None:
    a, out = uniform(50, 70), torch.zeros(70, 50)
    features.block_pointers[4, 3](a, out, 50, 70, BM=16, BN=32)
    assert torch.equal(out, a.t())


def test_descriptors() -> None:
    """As parts on an A100, which has no TMA."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = uniform(40, 64), torch.zeros(40, 64)
    of = TensorDescriptor.from_tensor
    host, device = (
        weft.kernel(f, device="sim:a100")
        for f in (features.host_descriptor, features.device_descriptor)
    )
    host[3, 2](of(x, [16, 32]), of(out, [16, 32]), BM=16, BN=32)
    assert torch.equal(out, x * 2)
    device[3, 2](x, out, 40, 64, BM=16, BN=32)
    assert torch.equal(out, x + 1)


def test_descriptors_are_tensor_maps_on_hopper() -> None:
    """The copies are those of TMA; a kernel makes its own maps with tensormap.replace."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = uniform(40, 64), torch.zeros(40, 64)
    of = TensorDescriptor.from_tensor
    compiled = features.host_descriptor[3, 2](of(x, [16, 32]), of(out, [16, 32]), BM=16, BN=32)
    assert "cp.async.bulk.tensor.2d" in compiled.asm["ptx"]
    assert torch.equal(out, x * 2)
    compiled = features.device_descriptor[3, 2](x, out, 40, 64, BM=16, BN=32)
    assert "tensormap.cp_fenceproxy" in compiled.asm["ptx"]
    assert torch.equal(out, x + 1)


def test_memory_of_an_allocator_is_aligned_as_on_a_gpu() -> None:
    from triton.runtime import _allocation

    asked = []

    def allocate(size: int, align: int, stream: object) -> torch.Tensor:
        """Memory as of torch.empty on a CPU: at a multiple of 64, of no more than that."""
        memory = torch.empty(size + 256, dtype=torch.int8)
        asked.append(align)
        return memory[(64 - memory.data_ptr()) % 128 :][:size]

    x, out = uniform(40, 64), torch.zeros(40, 64)
    token = _allocation._allocator.set(allocate)
    try:
        features.device_descriptor[3, 2](x, out, 40, 64, BM=16, BN=32)
    finally:
        _allocation._allocator.reset(token)
    assert asked == [128] and torch.equal(out, x + 1)


@pytest.mark.parametrize("warps", [4, 8])
def test_products_are_those_of_warpgroups_on_hopper(warps: int) -> None:
    draw = np.random.default_rng(warps)
    a, b = (torch.from_numpy(draw.integers(-4, 5, (128, 128)).astype(np.float16)) for _ in range(2))
    out = torch.zeros(128, 128)
    compiled = nets.matmul[(2,)](
        a, b, out, 128, 128, 128, *a.stride(), *b.stride(), *out.stride(),
        BM=128, BN=64, BK=64, GROUP=1, PRECISION="ieee", ACTIVATION="", num_warps=warps,
    )  # fmt: skip
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    assert torch.equal(out, a.float() @ b.float())


def test_a_product_at_sm_90_is_clean_under_the_sanitizer() -> None:
    """Triton's own pipeline: tensor copies into stages, wgmma, a tensor store of the result."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    a, b, c = uniform(64, 192).half(), uniform(192, 64).half(), torch.zeros(64, 64)
    maps = [TensorDescriptor.from_tensor(x, [64, 64]) for x in (a, b, c)]
    with weft.sanitize():
        compiled = features.product_of_descriptors[(1,)](*maps, 192, B=64, num_stages=3)
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    assert "cp.async.bulk.tensor.2d" in compiled.asm["ptx"]
    close(c, a.double() @ b.double(), 1e-5)


def test_device_print(capfd: pytest.CaptureFixture[str]) -> None:
    features.printing[(2,)](torch.arange(32) * 3, N=32, num_warps=1)
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        f"pid ({pid}, 0, 0) idx ({i:2}) value: {3 * i}" for pid in range(2) for i in range(32)
    )


def test_device_print_of_chosen_threads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_PRINTF_FROM", "block=1 thread=3")
    features.printing[(2,)](torch.arange(32) * 3, N=32, num_warps=1)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("block (1, 0, 0), thread (3, 0, 0): pid (1, 0, 0)") and line[-1] == "9"


def test_device_assert() -> None:
    features.asserting[(1,)](torch.tensor([3, 1, 4, 1]), N=4)
    with pytest.raises(weft.AssertFailed, match="too large") as caught:
        features.asserting[(1,)](torch.tensor([3, 1, 14, 1]), N=4)
    assert "features.py" in str(caught.value)


def test_casts() -> None:
    x = uniform(64) * 1000
    fp8, back, half = (
        torch.zeros(64, dtype=torch.uint8),
        torch.zeros(64),
        torch.zeros(64).bfloat16(),
    )
    features.casts[(1,)](x, fp8, back, half, N=64)
    wanted = x.to(torch.float8_e5m2)
    assert torch.equal(fp8, wanted.view(torch.uint8))
    assert torch.equal(back, wanted.float())
    assert torch.equal(half, x.bfloat16())


def test_inline_assembly_and_calls() -> None:
    x = torch.arange(64, dtype=torch.int32) * 5
    out = torch.zeros_like(x)
    features.assembly[(1,)](x, out, N=64)
    assert torch.equal(out, x ^ torch.arange(64, dtype=torch.int32))
    v, result = uniform(64), torch.zeros(64)
    features.calling[(64,)](v, result, 2)
    close(result, (v.double() ** 2 + 1) ** 2 + 1)


# ---- choosing and measuring ------------------------------------------------------------------
def grid(meta: dict[str, int]) -> tuple[int]:
    return (triton.cdiv(1000, meta["BLOCK"]),)


def tuned() -> Any:
    """An autotuned kernel; Triton rejects the first configuration."""
    sizes = ((4096, 64), (128, 1), (512, 4))  # a block has at most 32 warps
    configs = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in sizes]
    return triton.autotune(configs, key=["n"])(nets.add)


def test_autotune_takes_the_first_that_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tuned()
    x, y, out = *uniform(2, 1000), torch.zeros(1000)
    autotuning.say_once.cache_clear()
    kernel[grid](x, y, out, 1000)
    assert torch.equal(out, x + y)
    assert kernel.best_config is kernel.configs[1]
    assert "first configuration that compiles" in capsys.readouterr().err


def test_autotune_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    weft.triton.install(alone=True, autotune=True)
    try:
        kernel = tuned()
        x, y, out = *uniform(2, 1000), torch.zeros(1000)
        clock.say_once.cache_clear()
        kernel[grid](x, y, out, 1000)
        assert torch.equal(out, x + y)
        timings = [timing[0] for timing in kernel.configs_timings.values()]
        assert timings[0] == float("inf") and all(0 < t < 1e9 for t in timings[1:])
        assert capsys.readouterr().err.count("not of a GPU") == 1
    finally:
        weft.triton.install(alone=True)


@pytest.mark.parametrize("name", ["do_bench", "do_bench_cudagraph"])
def test_do_bench_calls_twice(name: str) -> None:
    calls: list[int] = []
    bench = getattr(triton.testing, name)
    assert bench(lambda: calls.append(0), rep=1000) > 0
    assert len(bench(lambda: calls.append(0), quantiles=[0.5, 0.2])) == 2
    assert len(calls) == 4


def test_report_labels_its_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    benchmark = triton.testing.Benchmark(
        x_names=["n"], x_vals=[8, 16], line_arg="kind", line_vals=["a", "b"],
        line_names=["A", "B"], plot_name="speed", args={"factor": 2.0},
    )  # fmt: skip

    @triton.testing.perf_report(benchmark)  # type: ignore[untyped-decorator]
    def speed(n: int, kind: str, factor: float) -> Any:
        return n * factor if kind == "a" else (n / factor, 0, 0)

    speed.run(print_data=True, save_path=str(tmp_path))
    head, *rows = capsys.readouterr().out.splitlines()
    assert head == "speed: times of the simulation on this CPU, not of a GPU"
    assert [row.split() for row in rows[1:]] == [["8", "16", "4"], ["16", "32", "8"]]
    assert (tmp_path / "speed.csv").read_text().splitlines()[0] == "n,A (simulated),B (simulated)"


def test_registers_are_counted_when_asked_for() -> None:
    x, y, out = *uniform(2, 1000), torch.zeros(1000)
    compiled = nets.add[(4,)](x, y, out, 1000, BLOCK=256)
    assert 65536 // (compiled.n_regs * 128) > 0 and compiled.n_spills == 0


# ---- weft.kernel -----------------------------------------------------------------------------
def test_kernel_has_code_and_resources() -> None:
    k = weft.kernel(nets.add, device="sim:rtx3070")
    with pytest.raises(weft.LaunchError, match="not compiled yet"):
        k.ptx  # noqa: B018
    x, y, out = *uniform(2, 1000), torch.zeros(1000)
    k[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=256)
    assert torch.equal(out, x + y)
    assert ".entry add(" in k.ptx
    assert k.resources.arch == "sm_86" and k.resources.registers > 0
    k.compile(x, y, out, 1000, BLOCK=512)
    assert len(k.variants) == 2


def test_kernel_of_something_else() -> None:
    with pytest.raises(weft.ArgumentError, match="no front end"):
        weft.kernel(torch.zeros(1))


def test_models_differ_in_shared_memory() -> None:
    a, c = torch.zeros(128, 128), torch.zeros(128, 128)
    arguments = (a, a, c, 128, 128, 128, 128, 1, 128, 1, 128, 1)
    tile: dict[str, Any] = dict(BM=128, BN=128, BK=64, GROUP=1, PRECISION="tf32", ACTIVATION="")
    large, small = (weft.kernel(nets.matmul, device=d) for d in ("sim:a100", "sim:rtx3070"))
    large.compile(*arguments, **tile, num_stages=3)
    with pytest.raises(triton.runtime.errors.OutOfResources, match="shared memory"):
        small.compile(*arguments, **tile, num_stages=3)


# ---- beside a real GPU -----------------------------------------------------------------------
BOTH = """
import torch, triton, weft, weft.triton
from triton_kernels import nets
for device in ("cuda", "cpu", "cuda"):
    x, y, out = torch.rand(3, 1000, device=device)
    compiled = nets.add[(4,)](x, y, out, 1000, BLOCK=256)
    assert torch.equal(out, x + y), device
    kernel = weft.kernel(nets.add)
    kernel[(4,)](x, y, out.zero_(), 1000, BLOCK=256)
    assert torch.equal(out, x + y), device
    assert bool(kernel.variants) == (device == "cpu")
try:
    nets.add[(5,)](x.cpu(), y.cpu(), out[:900].cpu(), 1000, BLOCK=256)
except weft.IllegalAddress:
    print("caught")
"""


@pytest.mark.gpu
def test_cuda_tensors_go_to_the_gpu() -> None:
    path = os.pathsep.join([str(TESTS), str(Path(weft.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", BOTH],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "caught\n"), done.stderr


def test_cache_without_a_part_is_a_miss(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    manager = pipeline.WholeGroups("key")
    group = {f"k.{e}": manager.put(b"", f"k.{e}") for e in ("json", "cubin", "ptx")}
    manager.put_group("k.json", group)
    assert set(manager.get_group("k.json") or ()) == set(group)
    Path(group["k.cubin"]).unlink()
    assert manager.get_group("k.json") is None


def test_copies_of_a_sum_are_no_race() -> None:
    """Lanes hold sums whose last bits differ, because of contraction, and store all of them."""
    x, out = uniform(16, 96), torch.zeros(16)
    with weft.sanitize():
        features.sum_of_squares[(16,)](x, out, 96, BLOCK=128)
    close(out, x.square().sum(1))


def test_floats_of_8_bits() -> None:
    a, b = ((8 * uniform(16, 32, seed=n) - 4).to(torch.float8_e4m3fn) for n in (1, 2))
    scale, out = uniform(16), torch.zeros(16, 16).to(torch.float8_e4m3fn)
    features.scaled_product[(1,)](a, b, scale, out, K=32)
    wanted = ((a.float() @ b.float().T) * scale[:, None]).to(torch.float8_e4m3fn)
    assert torch.equal(out.float(), wanted.float())
