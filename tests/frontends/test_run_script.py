"""`weft run script.py`: arguments, exit codes, tracebacks and Ctrl-C as under plain Python."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import weft
from limits import PROCESS_SECONDS
from weft import installation
from weft.frontends import script

SOURCE = str(Path(weft.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "NO_COLOR": "1"}


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


PLAIN = {
    "arguments": "import sys; print(sys.argv)",
    "main": "print(__name__, __file__, __spec__, __doc__)",
    "imports beside it": "import beside; print(beside.x)",
    "exit code": "import sys; sys.exit(3)",
    "exit with a text": "import sys; sys.exit('no')",
    "exit with nothing": "raise SystemExit",
    "traceback": "def f():\n    return 1 / 0\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "syntax error": "if True\n    print(1)",
    "pickles of its own classes": "import pickle\n"
    "class A: x = 5\n"
    "print(pickle.loads(pickle.dumps(A())).x)",
    "at exit": "import atexit; atexit.register(print, 'bye'); print('hello')",
    "standard input": "print(input())",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN.keys())
def test_as_plain_python(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    write(tmp_path, "x = 7", "beside.py")
    arguments = ["script.py", "one", "--two", "-h", "--device=x"]
    runs = [
        subprocess.run(
            [sys.executable, *command, *arguments], cwd=tmp_path, env=ENVIRONMENT, text=True,
            capture_output=True, input="typed\n", timeout=PROCESS_SECONDS,
        )
        for command in ([], ["-m", "weft", "run"])
    ]  # fmt: skip
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr == runs[1].stderr
    assert runs[0].returncode == runs[1].returncode


# ---- kernels ---------------------------------------------------------------------------------
torch_too = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
triton_too = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)

CUDA_TENSORS = """
import torch
x = torch.randn(4, device="cuda")
assert x.is_cuda and torch.cuda.is_available() and torch.cuda.device_count() == 1
y = torch.ones_like(x, device=torch.device("cuda", 0)).to("cuda:0").cuda()
print((x * 0 + y).cpu().numpy())
with torch.device("cuda"):
    print(torch.nn.Linear(2, 3)(torch.zeros(2)).shape)
torch.set_default_device("cuda")
generator = torch.Generator(device="cuda").manual_seed(1)
print(torch.rand(3, generator=generator, device="cuda").shape, torch.arange(2).tolist())
model = torch.nn.Linear(2, 2).cuda().to("cuda", torch.float64)
print(next(model.parameters()).dtype)
print(torch.tensor([1.5], device="cuda", dtype=torch.float16).pin_memory().item())
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    torch.cuda.synchronize()
end.record()
assert start.elapsed_time(end) > 0
print(torch.cuda.get_device_name(), torch.cuda.get_device_capability())
print(torch.cuda.get_device_properties(x.device).multi_processor_count, x.device == y.device)
torch.cuda.manual_seed(3)
drawn = torch.rand(2, device="cuda")
torch.manual_seed(3)
state = torch.cuda.get_rng_state()
assert torch.equal(drawn, torch.rand(2, device=x.device))
torch.cuda.set_rng_state(state)
assert torch.equal(drawn, torch.rand(2, device="cuda"))
torch.save(drawn, "drawn.pt")
assert torch.equal(drawn, torch.load("drawn.pt", map_location=drawn.device))
"""
SAID = """\
[1. 1. 1. 1.]
torch.Size([3])
torch.Size([3]) [0, 1]
torch.float64
1.5
GeForce RTX 3070, simulated (8, 6)
46 True
"""

TRAINING = """
import torch, torch.optim
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)
x = torch.randn(64, 8, device="cuda")
y = x.sum(1, keepdim=True)
HOW = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}
for optimizer in (torch.optim.SGD, torch.optim.AdamW):
    for name, how in HOW.items():
        model = torch.nn.Linear(8, 1).to("cuda")
        steps = optimizer(model.parameters(), lr=0.05, **how)
        losses = []
        for _ in range(40):
            loss = torch.nn.functional.mse_loss(model(x), y)
            steps.zero_grad()
            loss.backward()
            steps.step()
            losses.append(loss.item())
        print(optimizer.__name__, name, losses[-1] < losses[0] / 2)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
    with record_function("forward"):
        model(x)
print("forward" in seen.key_averages().table(sort_by="cuda_time_total"))
"""
TRAINED = """\
SGD default True
SGD foreach True
SGD fused True
AdamW default True
AdamW foreach True
AdamW fused True
True
"""

TRITON = """
import sys, torch, triton, triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i), i < n)

DEVICE = triton.runtime.driver.active.get_active_torch_device()
properties = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
assert DEVICE.index == 0 and getattr(torch, DEVICE.type).Stream() is not None
assert all(properties[name] > 0 for name in
           ("multiprocessor_count", "max_num_regs", "max_shared_mem", "warpSize"))
for n in map(int, sys.argv[1:]):
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    assert x.device == DEVICE
    out = torch.empty_like(x)
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=128)
    torch.cuda.synchronize()
    print(torch.equal(out, x + y), triton.runtime.driver.active.get_current_target().arch)
"""


def weft_run(
    *arguments: str, folder: Path, text: str, name: str = "script.py"
) -> subprocess.CompletedProcess[str]:
    write(folder, text, name)
    at = next((i for i, a in enumerate(arguments) if a == "FILE"), 0)
    command = [*arguments[:at], name, *arguments[at + 1 :]]
    return subprocess.run(
        [sys.executable, "-m", "weft", "run", *command], cwd=folder, env=ENVIRONMENT, text=True,
        capture_output=True, timeout=PROCESS_SECONDS,
    )  # fmt: skip


@torch_too
def test_cuda_tensors_are_on_the_cpu(tmp_path: Path) -> None:
    done = weft_run("--device", "sim:rtx3070", "FILE", folder=tmp_path, text=CUDA_TENSORS)
    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
    assert done.stderr.count("not of a GPU") == 1


@torch_too
def test_training_loop(tmp_path: Path) -> None:
    done = weft_run("FILE", folder=tmp_path, text=TRAINING)
    assert (done.returncode, done.stdout) == (0, TRAINED), done.stderr
    assert "CUDA event" not in done.stderr and done.stderr.count("not of a GPU") == 1


@triton_too
def test_triton_script(tmp_path: Path) -> None:
    """Both sizes in one process: importing torch takes longer than the rest."""
    wrong = weft_run("FILE", "1024", "1000", folder=tmp_path, text=TRITON)
    assert (wrong.returncode, wrong.stdout) == (1, "True 90\n"), wrong.stderr
    assert "weft.errors.IllegalAddress" in wrong.stderr
    assert "tl.load(y + i)" in wrong.stderr and "'y' (4000 bytes)" in wrong.stderr


RACE = '''
import numpy as np, weft
k = weft.cuda("""__global__ void k(int *x) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}""").k
k[1, 64](np.arange(64, dtype=np.int32))
print("ran")
'''


def test_sanitized_script(tmp_path: Path) -> None:
    plain = weft_run("FILE", folder=tmp_path, text=RACE)
    assert (plain.returncode, plain.stdout) == (0, "ran\n"), plain.stderr
    done = weft_run("--sanitize", "FILE", folder=tmp_path, text=RACE)
    assert (done.returncode, done.stdout) == (1, "") and "data race" in done.stderr
    refused = weft_run("--sanitize", "--device", "gpu", "FILE", folder=tmp_path, text=RACE)
    assert refused.returncode == 1 and "weft check --device gpu --sanitize" in refused.stderr


REFUSED = {
    "no such file": (["missing.py"], "error: no such file\n  got: missing.py\n"),
    "another suffix": (["notes.txt"], "files that end in .py, .cu, .cpp"),
    "no such GPU": (["--device", "sim:rtx307", "FILE"], "did you mean 'sim:rtx3070'?"),
}


@pytest.mark.parametrize(("arguments", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    command = [a.replace("FILE", "script.py") for a in arguments]
    write(tmp_path, "print('ran')")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", *command], cwd=tmp_path, env=ENVIRONMENT, text=True,
        capture_output=True, timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1 and said in done.stderr and "ran" not in done.stdout


def test_a_package_that_is_missing_is_one_of_the_extras(tmp_path: Path) -> None:
    text = "import sys; sys.modules['triton'] = None; import triton"
    done = weft_run("FILE", folder=tmp_path, text=text)
    assert done.returncode == 1 and installation.pip_install("triton") in done.stderr


@pytest.mark.parametrize("name", ["scirpt.py", "scirpt.cu"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    write(tmp_path, "")
    command = [sys.executable, "-m", "weft", "run", name]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, text=True, capture_output=True)
    assert done.returncode == 1 and "no such file" in done.stderr
    assert "did you mean 'script.py'?" in done.stderr


def test_gpu_leaves_everything_alone(tmp_path: Path) -> None:
    text = "import sys; print([f for f in sys.meta_path if 'weft' in type(f).__module__])"
    assert weft_run("--device", "gpu", "FILE", folder=tmp_path, text=text).stdout == "[]\n"


SLEEPING = """import time

print('ready', flush=True); time.sleep(600)
"""
ENDLESS = """import numpy, weft
k = weft.cuda("__global__ void k(float* y) { for (;;) y[0] += 1; }").k
print('ready', flush=True); k[1, 1](numpy.zeros(1, numpy.float32))
"""


# An interrupt in a string that Python executes, as when a dataclass is made.
IN_A_STRING = """import time

exec("print('ready', flush=True); time.sleep(600)")
"""


@pytest.mark.parametrize(
    "text", [SLEEPING, ENDLESS, IN_A_STRING], ids=["script", "kernel", "string"]
)
def test_control_c(tmp_path: Path, text: str) -> None:
    """The line that says so is the one that is interrupted: the signal may come at once."""
    write(tmp_path, text)
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "script.py"], cwd=tmp_path, env=ENVIRONMENT,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PROCESS_SECONDS)
    assert process.returncode == 130
    assert said == "weft: interrupted at script.py:3\n"


def test_two_finders_with_hooks_for_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that run scripts in one process leave one finder each; both hooks run once."""
    (tmp_path / "hooked_twice.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    called: list[str] = []
    finders = [
        script._AfterImport({"hooked_twice": functools.partial(called.append, n)}) for n in "ab"
    ]
    monkeypatch.setattr(sys, "meta_path", [*finders, *sys.meta_path])
    try:
        assert importlib.import_module("hooked_twice").value == 1
    finally:
        sys.modules.pop("hooked_twice", None)
    assert sorted(called) == ["a", "b"]
