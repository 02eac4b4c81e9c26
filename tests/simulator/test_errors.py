"""Bad inputs through the public API and the exact words they are answered with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devices
import weft
from folders import ROOT, TESTS
from limits import PROCESS_SECONDS
from weft import errors

CUDA = r"""
struct Pair { int a; float b; };
__constant__ float table[4];
extern __shared__ float dynamic[];
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}
__global__ void pair(Pair p, float* y) { y[0] = p.a + p.b; }
__global__ void byte(unsigned char c, double* y) { y[0] = c; }
__global__ void __launch_bounds__(64) few(float* y) { y[threadIdx.x] = 0; }
__global__ void shared_read(float* y, int i) {
    __shared__ float s[32];
    s[threadIdx.x & 31] = 1;
    __syncthreads();
    y[0] = s[i];
}
__global__ void local_read(float* y, int i) {
    float own[8];
    for (int k = 0; k < 8; k++) own[k] = y[k];
    y[0] = own[i];
}
__global__ void const_read(float* y, int i) {
    y[0] = table[i];
}
__global__ void uses_dynamic(float* y, int i) {
    dynamic[i] = y[0];
    y[1] = dynamic[0];
}
__global__ void quad(float* y, int i) {
    *(float4*)(y + i) = make_float4(1, 2, 3, 4);
}
__global__ void lonely(float* y) {
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;");
    y[threadIdx.x] = 1;
}
__global__ void spin(volatile int* lock) {
    while (*lock == 0) {}
}
__global__ void endless(float* y) {
    for (;;) y[0] += 1;
}
__global__ void stop(float* y) {
    if (threadIdx.x == 3) __trap();
}
template <typename T, int N> __global__ void fill(T* y) { y[threadIdx.x] = N; }
__device__ void helper(float* y) { y[0] = 1; }
"""
PTX = """.version 8.0
.target sm_80
.address_size 64 .func hoards() { .shared .b8 many[4294967280]; ret; }
.visible .entry k(.param .u64 p)
{ .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<2>;
"""
F = np.float32
LOADED_31 = "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; shr.u32 %r1, %r1, 25;"
"""31 in %r1, which is known when the kernel runs: the top bits of 1.0."""


def ones(n: int = 8) -> np.ndarray:
    return np.ones(n, F)


def read_only() -> np.ndarray:
    a = np.zeros(8, F)
    a.flags.writeable = False
    return a


def shifted(nbytes: int) -> np.ndarray:
    """Floats whose address is off by some bytes."""
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 64 + nbytes
    return raw[start : start + 64].view(F)


def launch(body: str) -> None:
    """A PTX kernel of a few statements, on one thread."""
    weft.load_ptx(f"{PTX}{body}\nret; }}\n").kernel("k")[1, 1](ones())


def plain(error: weft.Error) -> str:
    """The message without what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]{7,}", "0xADDRESS", str(error))
    text = re.sub(r"\(PTX line \d+\)", "(PTX line N)", text)
    return re.sub(r"nearest is '\w+' \(\d+ bytes\): \d{10,} bytes .*", "nearest is FAR", text)


def messages() -> dict[str, str]:
    """The words of each row, from the file where they stand as they are printed."""
    text = (TESTS / "golden" / "messages.txt").read_text()
    blocks = re.split(r"^### (.*)\n", text, flags=re.M)[1:]
    return {name: body.rstrip("\n") for name, body in zip(*[iter(blocks)] * 2, strict=True)}


Call = Callable[[Any], object]
TABLE: list[tuple[str, type[weft.Error], Call]] = [
    ("too few arguments", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones())),
    ("array for a number", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones(), ones())),
    ("number for an array", weft.ArgumentError, lambda k: k.scale[1, 8](1.5, ones(), 8)),
    ("list for an array", weft.ArgumentError, lambda k: k.scale[1, 8]([1.0], ones(), 8)),
    ("dtype", weft.ArgumentError, lambda k: k.scale[1, 8](ones().astype(np.float64), ones(), 8)),
    ("transposed", weft.ArgumentError, lambda k: k.scale[1, 8](np.ones((4, 4), F).T, ones(), 8)),
    ("every second", weft.ArgumentError, lambda k: k.scale[1, 8](ones(16)[::2], ones(), 8)),
    ("strided output", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones(16)[::2], 8)),
    (
        "dtype of an output",
        weft.ArgumentError,
        lambda k: k.scale[1, 8](ones(), ones().astype(np.float64), 8),
    ),
    (
        "long list for an array",
        weft.ArgumentError,
        lambda k: k.scale[1, 8](list(range(200_000)), ones(), 8),
    ),
    ("read-only", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), read_only(), 8)),
    ("alignment", weft.ArgumentError, lambda k: k.scale[1, 8](shifted(2), ones(), 8)),
    ("number too large", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones(), 1 << 31)),
    ("byte too large", weft.ArgumentError, lambda k: k.byte[1, 1](256, np.zeros(1))),
    ("fraction for an integer", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones(), 2.5)),
    (
        "nan for an integer",
        weft.ArgumentError,
        lambda k: k.scale[1, 8](ones(), ones(), float("nan")),
    ),
    ("text for a number", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones(), "8")),
    ("None for a number", weft.ArgumentError, lambda k: k.scale[1, 8](ones(), ones(), None)),
    ("number for a struct", weft.ArgumentError, lambda k: k.pair[1, 1](3, ones())),
    (
        "struct of another size",
        weft.ArgumentError,
        lambda k: k.pair[1, 1](np.zeros((), "i4,f8")[()], ones()),
    ),
    ("launch without a shape", weft.LaunchError, lambda k: k.scale(ones(), ones(), 8)),
    ("launch without a block", weft.LaunchError, lambda k: k.scale(ones(), ones(), 8, grid=1)),
    ("argument by name", weft.LaunchError, lambda k: k.scale[1, 8](ones(), ones(), n=8)),
    ("misspelt option", weft.LaunchError, lambda k: k.scale(ones(), ones(), 8, grid=1, blocks=8)),
    ("no threads", weft.LaunchError, lambda k: k.scale[1, 0](ones(), ones(), 8)),
    ("no blocks", weft.LaunchError, lambda k: k.scale[(1, 0), 8](ones(), ones(), 8)),
    ("negative grid", weft.LaunchError, lambda k: k.scale[-1, 8](ones(), ones(), 8)),
    ("fraction as grid", weft.LaunchError, lambda k: k.scale[1.5, 8](ones(), ones(), 8)),
    ("infinite grid", weft.LaunchError, lambda k: k.scale[float("inf"), 8](ones(), ones(), 8)),
    ("text as grid", weft.LaunchError, lambda k: k.scale["1", 8](ones(), ones(), 8)),
    ("long list as grid", weft.LaunchError, lambda k: k.scale[[1] * 5000, 8](ones(), ones(), 8)),
    ("four dimensions", weft.LaunchError, lambda k: k.scale[(1, 1, 1, 1), 8](ones(), ones(), 8)),
    ("no block", weft.LaunchError, lambda k: k.scale[1](ones(), ones(), 8)),
    ("block.x", weft.LaunchError, lambda k: k.scale[1, 1025](ones(), ones(), 8)),
    ("threads", weft.LaunchError, lambda k: k.scale[1, (32, 33)](ones(), ones(), 8)),
    ("block.z", weft.LaunchError, lambda k: k.scale[1, (1, 1, 65)](ones(), ones(), 8)),
    ("grid.y", weft.LaunchError, lambda k: k.scale[(1, 65536), 8](ones(), ones(), 8)),
    ("launch bounds", weft.LaunchError, lambda k: k.few[1, 65](ones())),
    ("shared memory", weft.LaunchError, lambda k: k.uses_dynamic[1, 1, 1 << 20](ones(), 0)),
    ("negative shared memory", weft.LaunchError, lambda k: k.uses_dynamic[1, 1, -4](ones(), 0)),
    ("kernel's name", weft.LaunchError, lambda k: k.scael),
    ("template's name", weft.LaunchError, lambda k: k.fill),
    ("template's misspelt name", weft.LaunchError, lambda k: k.kernel("fil<float, 4>")),
    ("template's wrong argument", weft.CompileError, lambda k: k.kernel("fill<flaot, 4>")),
    ("function without __global__", weft.LaunchError, lambda k: k.helper),
    ("variable's name", weft.LaunchError, lambda k: k.variable("tabel")),
    (
        "device's name",
        weft.LaunchError,
        lambda k: weft.cuda("__global__ void f() {}", device="sim:h300"),
    ),
    ("math mode", weft.LaunchError, lambda k: weft.cuda("__global__ void f() {}", math="loose")),
    (
        "compile error",
        weft.CompileError,
        lambda k: weft.cuda("__global__ void f(int* x) {\n    x[0] = y;\n}\n", name="mine.cu"),
    ),
    *(
        (name, weft.CompileError, lambda k, text=text: weft.cuda(text, name="mine.cu"))
        for name, text in {
            "function of the host": "void scale(float* y) { y[0] = 1; }",
            "<iostream>": "#include <iostream>\n__global__ void f() {}",
            "library of the host": "#include <cublas_v2.h>\n__global__ void f() {}",
            "misspelt built-in": "__global__ void f(int* x) { x[threadidx.x] = 1; }",
            "misspelt variable": "__global__ void f(int* value) { valeu[0] = 1; }",
            "misspelt specifier": "__gloabl__ void f(int* x) { x[0] = 1; }",
            "type without its header": "__global__ void f(half* x) {}",
        }.items()
    ),
    ("name of another file", weft.CompileError, lambda k: weft.cuda("kernel.cuda")),
    ("missing file", weft.CompileError, lambda k: weft.cuda("nowhere.cu")),
    (
        "instruction without a row",
        weft.UnsupportedInstruction,
        lambda k: weft.cuda(
            '__global__ void f(int* x) {\n    asm volatile("tcgen05.wait::ld.sync.aligned;");\n}',
            name="mine.cu",
        ).f[1, 1](np.zeros(1, "i4")),
    ),
    ("read past the end", weft.IllegalAddress, lambda k: k.scale[1, 32](ones(), ones(100), 100)),
    ("write past the end", weft.IllegalAddress, lambda k: k.scale[1, 32](ones(100), ones(), 100)),
    (
        "read past the end of a matrix",
        weft.IllegalAddress,
        lambda k: k.scale[3, 32](np.ones((8, 8), F), ones(100), 100),
    ),
    ("write before the start", weft.IllegalAddress, lambda k: k.quad[1, 1](shifted(0)[8:], -4)),
    ("null pointer", weft.IllegalAddress, lambda k: k.scale[1, 1](None, ones(), 1)),
    ("shared", weft.IllegalAddress, lambda k: k.shared_read[1, 32](ones(), 32)),
    ("shared, negative", weft.IllegalAddress, lambda k: k.shared_read[1, 32](ones(), -1)),
    ("local", weft.IllegalAddress, lambda k: k.local_read[1, 1](ones(), 8)),
    ("local, negative", weft.IllegalAddress, lambda k: k.local_read[1, 1](ones(), -1)),
    ("constant", weft.IllegalAddress, lambda k: k.const_read[1, 1](ones(), 4)),
    ("dynamic shared, none given", weft.IllegalAddress, lambda k: k.uses_dynamic[1, 1](ones(), 0)),
    ("dynamic shared", weft.IllegalAddress, lambda k: k.uses_dynamic[1, 1, 16](ones(), 4)),
    ("misaligned", weft.MisalignedAddress, lambda k: k.quad[1, 1](shifted(0), 1)),
    ("trap", weft.Trapped, lambda k: k.stop[2, 32](ones())),
    ("barrier nobody else reaches", weft.Deadlock, lambda k: k.lonely[1, 64](ones(64))),
    ("spinning on a lock", weft.Deadlock, lambda k: k.spin[1, 32](np.zeros(1, np.int32))),
    ("time limit", weft.TimeLimit, lambda k: k.endless[1, 1](ones(), time_limit=5)),
    ("not PTX", weft.PtxError, lambda k: weft.load_ptx("").k),
    (
        "PTX without a target",
        weft.PtxError,
        lambda k: weft.load_ptx(".visible .entry k() { ret; }").k,
    ),
    ("unknown opcode", weft.UnsupportedInstruction, lambda k: launch("frobnicate.u32 %r1, %r2;")),
    ("texture", weft.UnsupportedInstruction, lambda k: launch("tex.2dms.v4.f32.s32 {%r1}, [p];")),
    ("undeclared register", weft.PtxError, lambda k: launch("add.s32 %r1, %r9, 1;")),
    ("undeclared label", weft.PtxError, lambda k: launch("bra NOWHERE;")),
    ("undeclared variable", weft.PtxError, lambda k: launch("mov.u32 %r1, nowhere;")),
    ("register too narrow", weft.PtxError, lambda k: launch("add.f64 %r1, %r2, %r3;")),
    ("predicate wanted", weft.PtxError, lambda k: launch("selp.b32 %r1, %r2, %r3, %r1;")),
    ("too few operands", weft.PtxError, lambda k: launch("add.s32 %r1, %r2;")),
    ("literal as destination", weft.PtxError, lambda k: launch("add.s32 4, %r1, %r2;")),
    ("integer for a float", weft.PtxError, lambda k: launch("add.f32 %r1, %r2, 1;")),
    ("float for an integer", weft.PtxError, lambda k: launch("add.s32 %r1, %r2, 0f3F800000;")),
    ("address without brackets", weft.PtxError, lambda k: launch("ld.global.u32 %r1, %rd1;")),
    (
        "vector of three",
        weft.PtxError,
        lambda k: launch("ld.global.v4.u32 {%r1, %r2, %r3}, [%rd1];"),
    ),
    ("variable of another space", weft.PtxError, lambda k: launch("ld.shared.u32 %r1, [p];")),
    ("write to a parameter", weft.PtxError, lambda k: launch("st.param.u32 [p], %r1;")),
    ("barrier number", weft.PtxError, lambda k: launch("bar.sync 16;")),
    ("barrier count", weft.PtxError, lambda k: launch("bar.sync 1, 33;")),
    ("computed barrier number", weft.DeviceError, lambda k: launch(f"{LOADED_31} bar.sync %r1;")),
    ("computed barrier count", weft.DeviceError, lambda k: launch(f"{LOADED_31} bar.sync 1, %r1;")),
    ("local memory", weft.PtxError, lambda k: launch(".local .b8 x[99999999];")),
    ("shared memory of a function", weft.LaunchError, lambda k: launch("call.uni hoards;")),
    ("parameter of a function", weft.PtxError, lambda k: launch(".param .b8 x[40000];")),
    ("special register", weft.PtxError, lambda k: launch("mov.u32 %r1, %tid;")),
    ("call of a kernel", weft.UnsupportedInstruction, lambda k: launch("call k;")),
    (
        "wild global",
        weft.IllegalAddress,
        lambda k: launch("mov.u64 %rd1, 0x1234567890; ld.global.u32 %r1, [%rd1];"),
    ),
    ("wild global write", weft.IllegalAddress, lambda k: launch("st.global.u32 [16], %r1;")),
    ("wild generic", weft.IllegalAddress, lambda k: launch("mov.u64 %rd1, 1; ld.u8 %r1, [%rd1];")),
    (
        "wild shared",
        weft.IllegalAddress,
        lambda k: launch("mov.u32 %r1, -4; ld.shared.u32 %r1, [%r1];"),
    ),
    (
        "wild local",
        weft.IllegalAddress,
        lambda k: launch("mov.u32 %r1, 64; st.local.u32 [%r1], %r1;"),
    ),
    (
        "wild constant",
        weft.IllegalAddress,
        lambda k: launch("mov.u64 %rd1, 64; ld.const.u32 %r1, [%rd1];"),
    ),
    ("past the parameters", weft.IllegalAddress, lambda k: launch("ld.param.u32 %r1, [p+8];")),
    (
        "misaligned shared",
        weft.MisalignedAddress,
        lambda k: launch(".shared .b8 s[64]; ld.shared.u64 %rd1, [s+4];"),
    ),
    ("misaligned parameter", weft.MisalignedAddress, lambda k: launch("ld.param.u32 %r1, [p+2];")),
]


@pytest.fixture(scope="module")
def module() -> Any:
    return devices.current.module(weft.cuda(CUDA))


@pytest.mark.parametrize(("name", "kind", "call"), TABLE, ids=[row[0] for row in TABLE])
def test_message(name: str, kind: type[weft.Error], call: Call, module: Any) -> None:
    if devices.current.name == "gpu" and not issubclass(kind, weft.LaunchError):
        pytest.skip("a fault takes the context with it: test_gpu.py has those; the rest is PTX")
    with pytest.raises(kind) as caught:
        call(module)
    assert devices.current.as_simulated(plain(caught.value)) == messages()[name]


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        ("zeros(8, dtype=torch.float64)", "x.to(torch.float32)"),
        ("zeros(8, 8).T", "x.contiguous()"),
        ("zeros(64, dtype=torch.uint8)[2:34].view(torch.uint8)", "x.to(torch.float32)"),
    ],
    ids=["dtype", "transposed", "bytes"],
)
def test_tensors_are_told_what_tensors_can_do(make: str, advice: str) -> None:
    torch = pytest.importorskip("torch")
    x = eval(f"torch.{make}", {"torch": torch})
    with pytest.raises(weft.ArgumentError) as caught:
        weft.cuda(CUDA).scale[1, 8](x, torch.zeros(8), 8)
    assert caught.value.next.endswith(advice)


def test_every_message_has_a_row() -> None:
    assert list(messages()) == [row[0] for row in TABLE]


@pytest.mark.sim
def test_errors_have_fields(module: weft.Module) -> None:
    with pytest.raises(weft.IllegalAddress) as caught:
        module.scale[2, 32](ones(40), ones(64), 64)
    e = caught.value
    assert (e.kernel, e.space, e.access) == ("scale", "global", "read")
    assert (e.block, e.thread) == ((1, 0, 0), (8, 0, 0))
    assert e.line.startswith("kernel.cu:8")


@pytest.mark.sim
def test_a_failed_launch_leaves_the_module_usable(module: weft.Module) -> None:
    x, y = ones(), np.zeros(8, F)
    with pytest.raises(weft.IllegalAddress):
        module.scale[1, 32](x, y, 100)
    module.scale[1, 32](x, y, 8)
    assert (y == 2).all()


@pytest.mark.sim
def test_interrupt_stops_a_launch(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(
        "import numpy as np, weft\n"
        'k = weft.cuda("__global__ void f(int* x) { for (;;) x[0] += 1; }").f\n'
        "x = np.zeros(1, np.int32)\n"
        "print('ready', flush=True)\n"
        "try:\n    k[64, 64](x)\n"
        "except KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(1.5)  # compiling, then running
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PROCESS_SECONDS)
    assert rest == "stopped\n" and process.returncode == 0


def test_the_documents_have_every_error() -> None:
    tree = (errors.__doc__ or "").partition("\n    Error\n")[2].partition("\n\nAn error")[0]
    lines = ["Error", *(line.removeprefix("    ") for line in tree.splitlines())]
    page = (ROOT / "docs" / "errors.md").read_text()
    assert "\n".join(lines) in page
    own = (k for k in vars(errors).values() if isinstance(k, type))
    kinds = [kind for kind in own if kind.__module__ == errors.__name__]
    assert len(kinds) > 15
    for kind in kinds:
        assert kind.__name__ in weft.__all__
        assert any(kind.__name__ in line.split() for line in lines), kind.__name__
        if kind is not weft.Error:
            described = re.search(
                rf"^(### .*\b|\| `){kind.__name__}\b|`{kind.__name__}`", page, re.M
            )
            assert described, f"docs/errors.md does not describe {kind.__name__}"


SHORT_OF_MEMORY = """
import resource
{before}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
try:
    {action}
except Exception as error:
    print(type(error).__name__, error)
"""
LARGE = """import weft
head = ".version 8.0\\n.target sm_80\\n.address_size 64\\n"
module = weft.load_ptx(head + ".global .b8 x[4294967296];")
module.names"""
NEEDS = {
    "to load NVRTC": ("import weft.source.nvrtc", "weft.source.nvrtc.version()"),
    "to load LLVM": ("import numpy", "import weft.device.jit"),
    "for the variables of the module": (LARGE, "module.variable('x')"),
}


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("need", NEEDS)
def test_too_little_memory_is_no_missing_package(need: str) -> None:
    before, action = NEEDS[need]
    code = SHORT_OF_MEMORY.format(before=before, action=action)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    said = f"OutOfMemory there is not enough memory {need}"
    assert done.stdout.startswith(said), done.stdout + done.stderr
    assert "ulimit -v" in done.stdout and "pip install" not in done.stdout


EMPTY = ".version 8.0\n.target sm_80\n.address_size 64\n"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: weft.cuda("\n__global__ void k() {} // \ud800"), "kernel.cu:2: "),
        (lambda: weft.cuda("__global__ void k() {}", name="a\ud800.cu"), r"'a\ud800.cu'"),
        (lambda: weft.cuda("__global__ void k() {}", defines={"A": "\ud800"}), r"-DA=\ud800"),
        (lambda: weft.load_ptx(EMPTY + "// \ud800"), "<ptx>:4: "),
    ],
    ids=["source", "name", "define", "ptx"],
)
def test_half_of_a_surrogate_pair_is_refused(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(weft.Error, match="half of a surrogate pair is not a character") as raised:
        build()
    assert says in str(raised.value)


def test_bytes_that_are_not_utf8_reach_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "latin.cu"
    path.write_bytes(b"__global__ void k() {}  // \xff\n")
    weft.cuda(path).k[1, 1]()


@pytest.mark.parametrize("kind", ["float", "double", "__half", "__nv_bfloat16", "int"])
@pytest.mark.parametrize("digits", [400, 9000])
def test_a_number_that_is_too_large_is_refused(kind: str, digits: int) -> None:
    source = f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n__global__ void k({kind} f) {{}}"
    with pytest.raises(weft.ArgumentError, match=r"an integer of \d+ bits"):
        weft.cuda(source).k[1, 1](10**digits)
