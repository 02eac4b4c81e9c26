"""PyTorch scripts for a GPU under `weft run`: what they use beside tensors takes effect."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from test_run_script import ENVIRONMENT, weft_run, write

from limits import PROCESS_SECONDS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

AMP = """
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to("cuda")
optimizer = torch.optim.Adam(model.parameters(), 1e-2, capturable=True)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(64, 16, device="cuda"), torch.randint(0, 4, (64,), device="cuda")
losses = []
for _ in range(5):
    with torch.autocast("cuda"):
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        assert (out.dtype, loss.dtype) == (torch.float16, torch.float32)
        assert torch.exp(out).dtype == torch.softmax(out, -1).dtype == torch.float32
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
assert losses[-1] < losses[0] and scaler.get_scale() == 65536
with torch.autocast("cuda", dtype=torch.bfloat16):
    assert model(x).dtype == torch.bfloat16 and torch.is_autocast_enabled()
    with torch.autocast("cuda", enabled=False):
        assert model(x).dtype == torch.float32
assert not torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.float16
class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        return x * x
with torch.autocast("cuda"):
    assert Square.apply(torch.ones(3, device="cuda", dtype=torch.float16)).dtype == torch.float32
scaler = torch.cuda.amp.GradScaler(init_scale=1e30)
scaler.scale(model(x).sum() * 1e10).backward()
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() < 1e30  # infinite gradients halve the scale
"""

GRAPHS = """
model = nn.Linear(8, 8).cuda()
x, y = torch.randn(4, 8, device="cuda"), torch.randn(4, 8, device="cuda")
graph = torch.cuda.CUDAGraph()
before = model.weight.detach().clone()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with torch.cuda.graph(graph):
    assert torch.cuda.is_current_stream_capturing()
    out = model(x).relu()
    loss = (out - y).square().mean()
    loss.backward()
    optimizer.step()
assert torch.equal(model.weight, before)  # a capture runs nothing
losses = []
for _ in range(4):
    graph.replay()
    losses.append(loss.item())
assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
x.copy_(torch.randn(4, 8))
expected = model(x).relu()
graph.replay()
assert torch.equal(out, expected)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        (x + 1).sum().item()
except RuntimeError as error:
    assert "not permitted when stream is capturing" in str(error)
else:
    raise AssertionError("a graph read a value")
assert torch.cuda.make_graphed_callables(model, (x,))(x).shape == (4, 8)
"""

MEMORY = """
torch.cuda.empty_cache()  # collects garbage of the parts before
torch.cuda.reset_peak_memory_stats()
start = torch.cuda.memory_allocated()
held = torch.zeros(1 << 20, device="cuda")
more = held + 1
del more
assert torch.cuda.memory_allocated() - start == 4 << 20
assert torch.cuda.max_memory_allocated() - start == 8 << 20
assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated()
assert torch.cuda.mem_get_info()[0] < torch.cuda.mem_get_info()[1]
del held
assert torch.cuda.memory_allocated() == start
"""

STREAMS = """
stream, event = torch.cuda.Stream(), torch.cuda.Event()
assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
with torch.cuda.stream(stream):
    assert torch.cuda.current_stream() == stream
    x = torch.ones(2, device="cuda")
    event.record(stream)
torch.cuda.current_stream().wait_event(event)
x.record_stream(torch.cuda.current_stream())
assert stream.query() and event.query() and x.get_device() == 0
pinned = torch.empty(4, pin_memory=True)
assert pinned.is_pinned() and torch.ones(2).pin_memory().is_pinned()
assert not torch.ones(2).is_pinned()
assert torch.zeros(2, device=0).to(0).is_cuda and torch.cuda.FloatTensor([1]).is_cuda
assert nn.Linear(2, 2).to(0).weight.is_cuda and nn.Linear(2, 2).to(device=0).weight.is_cuda
assert torch.accelerator.current_accelerator().type == "cuda"
in_thread = []
thread = threading.Thread(target=lambda: in_thread.append(torch.ones(1, device="cuda").is_cuda))
thread.start()
thread.join()
assert in_thread == [True]
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
class Ending(threading.Thread):
    def _bootstrap_inner(self):
        super()._bootstrap_inner()
        self.modes = _get_current_function_mode_stack() + _get_current_dispatch_mode_stack()
ending = Ending()
ending.start()
ending.join()
assert ending.modes == []  # a process that exits while C++ code releases them is aborted
data = torch.utils.data.TensorDataset(torch.arange(8.0))
loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True)
assert sum(batch[0].to("cuda", non_blocking=True).sum().item() for batch in loader) == 28
"""

PROFILER = """
from torch.profiler import ProfilerActivity, profile, schedule
steps, ready = schedule(wait=0, warmup=1, active=1), []
with profile(activities=[ProfilerActivity.CUDA], schedule=steps, on_trace_ready=ready.append) as p:
    for _ in range(2):
        torch.ones(4, device="cuda").sum()
        p.step()
assert len(ready) == 1
with torch.autograd.profiler.emit_nvtx(), torch.cuda.nvtx.range("part"):
    torch.cuda.profiler.start()
"""


LIBRARIES = """
half = torch.randn(8, 16, device="cuda", dtype=torch.bfloat16)
wide = torch.mm(half, half.T, out_dtype=torch.float32)  # a product of 16 bits kept in 32
assert torch.allclose(wide, half.float() @ half.float().T) and wide.dtype == torch.float32
into = torch.zeros(8, 8, device="cuda")
torch.addmm(into, half, half.T, out_dtype=torch.float32, out=into)
assert torch.equal(into, wide)
parameters = [nn.Parameter(torch.ones(3, device="cuda")) for _ in range(2)]
from torch.optim.optimizer import _default_to_fused_or_foreach
assert _default_to_fused_or_foreach(parameters, False) == (False, True)  # one call for all
"""

GENERATORS = """
one = torch.cuda.default_generators[0]
assert one.device.type == "cuda" and isinstance(one, torch.Generator)
assert isinstance(torch.default_generator, torch.Generator)
torch.manual_seed(5)
state = torch.cuda.get_rng_state()
assert one.initial_seed() == 5 and state.view(torch.int64).tolist() == [5, 0]
first = torch.rand(3, device="cuda")
assert one.get_offset() == 4
torch.cuda.set_rng_state(state)
assert torch.equal(torch.rand(3, device="cuda"), first)
later = torch.cuda.get_rng_state()
second = torch.rand(3, device="cuda")
torch.manual_seed(5)
torch.rand(7, device="cuda")  # more numbers than before
assert not torch.equal(torch.cuda.get_rng_state(), later)
torch.cuda.set_rng_state(later)
assert torch.equal(torch.rand(3, device="cuda"), second)
state.view(torch.int64)[1] = 400  # never seen before: kernels of libraries advance it themselves
one.set_state(state)
first = torch.rand(2, device="cuda")
one.set_state(state)
assert torch.equal(torch.rand(2, device="cuda"), first) and one.get_offset() == 404
own = torch.Generator("cuda").manual_seed(2**63 + 1)
assert own.initial_seed() == 2**63 + 1 and torch.Generator().device.type == "cpu"
own.set_offset(8)
first = torch.rand(2, generator=own, device="cuda")
assert torch.equal(torch.rand(2, generator=own.set_offset(8), device="cuda"), first)
try:
    torch.cuda.set_rng_state(torch.get_rng_state())
except RuntimeError as error:
    assert "16 bytes, got 5056" in str(error)
else:
    raise AssertionError("a state of the CPU was taken")
address = torch.cuda.caching_allocator_alloc(16)
assert isinstance(address, int)
torch.cuda.caching_allocator_delete(address)
assert torch.device(0) == torch.device("cuda", 0) == torch.zeros(1, device=0).device
assert torch.cuda.current_stream().__cuda_stream__() == (0, 0)
"""


def test_what_training_scripts_use(tmp_path: Path) -> None:
    """One process for all: importing torch takes longer than the parts."""
    parts = [AMP, GRAPHS, MEMORY, STREAMS, PROFILER, LIBRARIES, GENERATORS]
    text = "\n".join(["import threading, torch", "from torch import nn", *parts, "print('all')"])
    done = weft_run("FILE", folder=tmp_path, text=text)
    assert (done.returncode, done.stdout) == (0, "all\n"), done.stderr


COMPILED = """
import torch, triton, triton.language as tl
from torch import nn

@triton.jit
def square(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(y + i, value * value, i < n)

@torch.compile(fullgraph=True)
def function(x, scale):
    y = torch.empty_like(x)
    square[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return torch.softmax(nn.functional.gelu(y) * scale, -1).to("cuda")

x = torch.randn(5, 33, device="cuda", requires_grad=True)
expected = torch.softmax(nn.functional.gelu(x * x) * 2, -1)
torch.testing.assert_close(function(x.detach(), 2.0), expected.detach())

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
compiled = torch.compile(model)
x = torch.randn(32, 8, device="cuda")
for run in (model, compiled):
    model.zero_grad()
    run(x).square().mean().backward()
    print(f"{model[0].weight.grad.norm().item():.4f}")

from torch.nn.attention import flex_attention as flex
q, k, v = (torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True) for _ in range(3))
mask = flex.create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, device="cuda")
out = flex.flex_attention(q, k, v, block_mask=mask)
out.sum().backward()
expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
torch.testing.assert_close(out, expected)
assert q.grad.abs().sum() > 0
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_compiled_by_inductor(tmp_path: Path) -> None:
    done = weft_run("--show-kernels", "FILE", folder=tmp_path, text=COMPILED)
    assert done.returncode == 0, done.stderr
    plain, compiled = done.stdout.split()
    assert plain == compiled
    assert "@triton.jit\ndef triton_" in done.stderr
    assert "_softmax" in done.stderr and "tl.load" in done.stderr


OPERATORS = """
import weft.triton  # before Triton, and with the GPU that `weft run` has chosen
import torch, triton, triton.language as tl

@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, 2 * tl.load(x + i, i < n), i < n)

def doubled(x):
    y = torch.empty(x.shape, device="cuda")
    double[(1,)](x, y, x.numel(), B=16)
    return y

class Pointer:  # has what Triton asks of a tensor
    def __init__(self, tensor):
        self.tensor, self.address, self.dtype = tensor, tensor.data_ptr(), tensor.dtype
    def data_ptr(self):
        return self.address

called = []
def product(a, b):
    called.append(a.dtype)
    return torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)

x = torch.tensor([-1.0, 2.0], device="cuda")
half = torch.ones(2, 2, dtype=torch.float16, device="cuda")
lib = torch.library.Library("aten", "IMPL")
lib.impl("abs", doubled, "CUDA")
lib.impl("mm", product, "CUDA")
assert torch.abs(x).tolist() == [-2, 4]
assert (half @ half).sum() == 0 and called == [torch.float16]
lib._destroy()
assert torch.abs(x).tolist() == [1, 2] and (half @ half).sum() == 8
y = torch.zeros(2)
double[(1,)](Pointer(x), Pointer(y), 2, B=16)
assert y.tolist() == [-2, 4]

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x
    @staticmethod
    def backward(ctx, grad):
        return torch.full((2,), 3.0, device="cuda") * grad
w = x.clone().requires_grad_()
assert torch.autograd.grad(Scaled.apply(w).sum(), w)[0].tolist() == [3, 3]

twice = torch.library.custom_op("mine::twice", doubled, mutates_args=(), device_types="cuda",
                                schema="(Tensor x) -> Tensor")
twice.register_autograd(lambda ctx, grad: 2 * grad)
twice(w).sum().backward()
assert w.grad.tolist() == [2, 2]

@torch.library.custom_op("mine::which", mutates_args=(), device_types="cpu")
def which(x: torch.Tensor) -> int:
    return 0
which.register_kernel("cuda")(lambda x: 1)
assert which(x) == 1

lib = torch.library.Library("mine2", "DEF")
for name, keys in {"up": ("CPU", "CUDA"), "down": ("CUDA", "CPU")}.items():
    lib.define(name + "(Tensor x) -> str")
    for key in keys:
        lib.impl(name, lambda x, key=key: key, key, allow_override=False)
    assert getattr(torch.ops.mine2, name)(x) == "CUDA"
lib.define("g(Tensor x) -> Tensor")
torch.library.impl("mine2::g", ("cpu", "cuda"), lambda x: x * 3)
def with_gradient(keys, x):
    below = keys & torch._C._after_autograd_keyset
    return torch.ops.mine2.g.default.redispatch(below, x) + 1
lib.impl("g", with_gradient, "AutogradCUDA", with_keyset=True)
assert torch.ops.mine2.g(w).tolist() == [-2, 7]
lib.define("h(Tensor x) -> Tensor")
keyed = torch.library.Library("mine2", "IMPL", "CUDA")
keyed.impl("h", lambda x: x + 1)
torch.library.register_kernel("mine2::h", "cpu", lambda x: x - 1)
assert torch.ops.mine2.h(x).tolist() == [0, 3]
torch.library.register_autocast("mine2::h", "cuda", torch.float16)
with torch.autocast("cuda"):
    assert torch.ops.mine2.h(x).dtype == torch.float16

@torch.library.triton_op("mine::doubled", mutates_args={})
def by_triton(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(double)[(1,)](x, y, x.numel(), B=16)
    return y
assert by_triton(x).tolist() == [-2, 4]

@torch.library.custom_op("mine::grow", mutates_args=("x",), device_types="cuda")
def grow(x: torch.Tensor) -> None:
    double[(1,)](x, x, x.numel(), B=16)
graph, held = torch.cuda.CUDAGraph(), torch.ones(2, device="cuda")
with torch.cuda.graph(graph):
    grow(held)
assert held.tolist() == [1, 1]
graph.replay()
assert held.tolist() == [2, 2]  # not once for the operation and once for its kernel
print(triton.runtime.driver.active.get_current_target().arch)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_operators_for_cuda_are_called(tmp_path: Path) -> None:
    done = weft_run("--device", "sim:t4", "FILE", folder=tmp_path, text=OPERATORS)
    assert (done.returncode, done.stdout) == (0, "75\n"), done.stderr


DDP = """
import os, subprocess, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn

def main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("nccl", init_method=f"file://{os.getcwd()}/meet", rank=rank,
                            world_size=world)
    torch.cuda.set_device(rank)
    assert torch.cuda.current_device() == rank and torch.cuda.device_count() == world
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(10, 1).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(8, 10, device="cuda") + rank
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    mean = model.module.weight.detach().clone()
    dist.all_reduce(mean)
    assert torch.allclose(mean / world, model.module.weight)
    dist.destroy_process_group()
    open(f"done{rank}", "w").close()

if __name__ == "__main__":
    mp.spawn(main, (2,), nprocs=2)
"""


@pytest.mark.slow
def test_ddp_in_processes_of_their_own(tmp_path: Path) -> None:
    done = weft_run("--gpus", "2", "FILE", folder=tmp_path, text=DDP)
    assert done.returncode == 0, done.stderr
    assert all((tmp_path / f"done{rank}").exists() for rank in range(2))


def test_child_processes_have_the_hooks_and_their_own_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('own')")
    text = """
    import os, subprocess, sys
    os.environ["PYTHONPATH"] += os.pathsep + "site"
    code = "import sys; print([type(f).__module__ for f in sys.meta_path if 'weft' in str(f)])"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    """
    done = weft_run("FILE", folder=tmp_path, text=text)
    assert done.stdout.startswith("own\n['weft.frontends.script'"), done.stderr


def test_commands_of_python_are_scripts(tmp_path: Path) -> None:
    text = "#!/usr/bin/env python3\nimport sys; print(sys.argv)"
    done = weft_run("FILE", "-q", folder=tmp_path, text=text, name="command")
    assert done.stdout == "['command', '-q']\n", done.stderr


def test_modules_run_as_by_python_m(tmp_path: Path) -> None:
    text = """
    import sys, torch
    from . import value
    print(value, __name__, sys.argv[1:], torch.zeros(1, device="cuda").is_cuda)
    """
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("value = 3")
    write(tmp_path, text, "package/__main__.py")
    found, missing = (
        subprocess.run(
            [sys.executable, "-m", "weft", "run", "-m", name, "-m", "--x"], cwd=tmp_path,
            env=ENVIRONMENT, text=True, capture_output=True, timeout=PROCESS_SECONDS,
        )
        for name in ("package", "package.other")
    )  # fmt: skip
    assert found.stdout == "3 __main__ ['-m', '--x'] True\n", found.stderr
    assert missing.returncode == 1 and "there is no such Python module" in missing.stderr


def test_pytest_as_a_module_in_a_project_whose_warnings_are_errors(tmp_path: Path) -> None:
    """pytest would rewrite the asserts of weft, a plugin, which `weft run` has imported."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_one.py").write_text("def test_one():\n    assert True\n")
    command = [sys.executable, "-m", "weft", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, text=True, capture_output=True,
        timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stderr


def test_shell_scripts_are_refused(tmp_path: Path) -> None:
    """Such as the commands of pyenv, which look like those of Python."""
    done = weft_run("FILE", folder=tmp_path, text="#!/bin/sh\nexec pytest\n", name="command")
    assert done.returncode == 1 and "weft does not run shell scripts" in done.stderr
    assert "got: #!/bin/sh" in done.stderr and "pyenv which" in done.stderr
