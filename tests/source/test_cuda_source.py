"""CUDA C++ to PTX: what is found in it, what its errors say, and when it is compiled again."""

from __future__ import annotations

import math
import os
import pkgutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import weft
import weft.errors
from weft import installation
from weft.source import compile_cuda, diagnose, headers, nvrtc, read_ptx, remarks, toolkit
from weft.values import Ptx

SQUARE = """\
__global__ void square(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
"""


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(source: str | Path, **kwargs: object) -> Ptx:
    return compile_cuda(source, arch="sm_80", **kwargs)  # type: ignore[arg-type]


def as_bits(value: float) -> str:
    return f"{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def signature(ptx: Ptx, spelling: str) -> list[tuple[str, str]]:
    return [(p.name, p.ctype) for p in ptx.signatures[ptx.entries[spelling]]]


def test_no_public_name_hides_a_package() -> None:
    packages = {module.name for module in pkgutil.iter_modules(weft.__path__)}
    for name in packages & set(weft.__all__):
        assert getattr(weft, name) is sys.modules[f"weft.{name}"]


def test_a_kernel() -> None:
    ptx = build(SQUARE)
    assert ptx.entries == {"square": "_Z6squarePKfPfi"}
    assert signature(ptx, "square") == [("x", "float const*"), ("y", "float*"), ("n", "int")]
    assert ".target sm_80" in ptx.text
    assert '.file\t1 "kernel.cu"' in ptx.text
    assert ".loc\t1 3" in ptx.text
    assert ptx.sources == {"kernel.cu": SQUARE}
    assert (ptx.arch, ptx.origin) == ("compute_80", "kernel.cu")


# header, and a kernel body that uses it
HEADERS = [
    ("cuda_fp16.h", "out[0] = __half2float(__hadd(__float2half(1.f), __float2half(2.f)));"),
    ("cuda_bf16.h", "out[0] = __bfloat162float(__float2bfloat16(1.f));"),
    ("cuda_fp8.h", "out[0] = float(__nv_fp8_e4m3(out[1]));"),
    ("mma.h", "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;"
              "nvcuda::wmma::fill_fragment(c, 1.f); out[0] = c.x[0];"),
    ("cooperative_groups.h", "cooperative_groups::this_thread_block().sync(); out[0] = 1;"),
    ("cuda/std/array", "cuda::std::array<float, 2> a{1, 2}; out[0] = a[1];"),
    ("cuda/atomic", "cuda::atomic_ref<float> a(out[0]); a.fetch_add(1.f);"),
    ("cub/block/block_reduce.cuh", "using Reduce = cub::BlockReduce<float, 128>;"
                                   "__shared__ typename Reduce::TempStorage storage;"
                                   "out[0] = Reduce(storage).Sum(out[1]);"),
    ("curand_kernel.h", "curandStatePhilox4_32_10_t s; curand_init(1, 2, 3, &s);"
                        "out[0] = curand_uniform(&s);"),
    ("stdint.h", "out[0] = sizeof(uint64_t) == 8;"),
    ("cstdio", 'printf("%f", out[0]);'),
    ("cmath", "out[0] = sqrtf(out[1]);"),
    ("float.h", "out[0] = FLT_MAX;"),
    ("limits.h", "out[0] = INT_MAX;"),
    ("stddef.h", "ptrdiff_t d = 1; out[d] = 0;"),
    ("assert.h", "assert(out[0] > 0);"),
    ("cuda_runtime.h", "float4 v = make_float4(1, 2, 3, 4); out[0] = v.x;"),
]  # fmt: skip


@pytest.mark.parametrize("header, body", HEADERS, ids=[header for header, _ in HEADERS])
def test_headers_work_out_of_the_box(header: str, body: str) -> None:
    ptx = build(f"#include <{header}>\n__global__ void k(float* out) {{ {body} }}\n")
    assert signature(ptx, "k") == [("out", "float*")]


# an expression, and the bits it must fold to; nvcc takes each without any include
CONSTANTS = [
    ("-INFINITY", "0fFF800000"),
    ("NAN", "0f7FC00000"),
    ("HUGE_VALF", "0f7F800000"),
    ("float(-HUGE_VAL)", "0fFF800000"),
    ("float(M_PI)", "0f40490FDB"),
    ("float(M_E * M_LOG2E * M_LOG10E)", f"0f{as_bits(math.e / math.log(2) / math.log(10))}"),
    ("float(M_LN2 * M_LN10)", f"0f{as_bits(math.log(2) * math.log(10))}"),
    ("float(M_PI_2 * M_PI_4 * M_1_PI * M_2_PI)", "0f3E800000"),
    ("float(M_2_SQRTPI * M_SQRT2 * M_SQRT1_2)", f"0f{as_bits(2 / math.sqrt(math.pi))}"),
]


@pytest.mark.parametrize("header", ["", "math.h", "cmath", "cuda/std/cmath"])
def test_constants_of_c(header: str) -> None:
    include = f"#include <{header}>\n" if header else ""
    kernels = [
        f"__global__ void k{i}(float* y) {{ constexpr float c = {expression}; *y += c; }}\n"
        for i, (expression, _) in enumerate(CONSTANTS)
    ]
    _, *bodies = build(include + "".join(kernels)).text.split(".entry")
    for body, (expression, bits) in zip(bodies, CONSTANTS, strict=True):
        assert bits in body, expression


def test_constants_may_be_the_users_own() -> None:
    source = "#define NAN 2.0f\n#undef M_PI\n__device__ float M_PI = 3.0f;\n"
    ptx = build(
        f"{source}__global__ void k(float* y) {{ *y += INFINITY + NAN; }}\n",
        defines={"INFINITY": "1.0f"},
    )
    assert "0f40400000" in ptx.text and ".loc\t1 4" in ptx.text


# source, spelling, parameters
SIGNATURES = [
    ('extern "C" __global__ void k(const float* x, int n) {}', "k",
     [("x", "float const*"), ("n", "int")]),
    ('extern "C" { __global__ void __launch_bounds__(128, 2) k(double* __restrict__ p) {} }', "k",
     [("p", "double*")]),
    ('#define KERNEL extern "C" __global__\nKERNEL void k(unsigned char c) {}', "k",
     [("c", "unsigned char")]),
    ('#define KERNEL(name) extern "C" __global__ void name\nKERNEL(k)(unsigned char c) {}', "k",
     [("arg0", "unsigned char")]),  # the scan knows no macros: types, no names
    ('#if 0\nextern "C" __global__ void gone() {}\n#endif\nextern "C" __global__ void k(int i) {}',
     "k", [("i", "int")]),
    ('extern "C" __global__ void k() {}', "k", []),
    ("__global__ void k(void) {}", "k", []),
    ("namespace a::b { struct P { int q; }; __global__ void k(P p, P* q) {} }", "a::b::k",
     [("p", "a::b::P"), ("q", "a::b::P*")]),
    ("namespace { __global__ void k(long long a, unsigned b) {} }", "k",
     [("a", "long long"), ("b", "unsigned int")]),
    ("static __global__ void k(float4 v, char* s /* , int gone */) {}", "k",
     [("v", "float4"), ("s", "char*")]),
    ("template <class T, int N> __global__ void k(T* x, const T (*y)[N]) {}\n"
     "template __global__ void k<float, 4>(float*, const float (*)[4]);", "k<float, 4>",
     [("x", "float*"), ("y", "float const (*) [4]")]),
    ("__global__ void k(int a) {}\n__global__ void k(float* x) {}", "k(float*)",
     [("arg0", "float*")]),  # which of the two names it is takes a parser to say
    ("__global__ void k(int a) {}\n__global__ void k(float* a) {}", "k(int)", [("a", "int")]),
    ("#include <cuda_fp16.h>\n__global__ void k(__half h, half2* v) {}", "k",
     [("h", "__half"), ("v", "__half2*")]),
    ("__global__ void k(void (*f)(float), bool b) {}", "k",
     [("f", "void (*)(float)"), ("b", "bool")]),
    ("template <class... T> __global__ void k(T*... x) {}\n"
     "template __global__ void k<int, float>(int*, float*);", "k<int, float>",
     [("arg0", "int*"), ("arg1", "float*")]),
]  # fmt: skip


@pytest.mark.parametrize("source, spelling, parameters", SIGNATURES)
def test_signature(source: str, spelling: str, parameters: list[tuple[str, str]]) -> None:
    ptx = build(source)
    assert signature(ptx, spelling) == parameters
    assert "probe" not in ptx.text


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("__global__ void k(float* x) { x[0] = 1; }", True),
        (
            "__global__ void k(cudaTextureObject_t t, float* x) { x[0] = tex1D<float>(t, 0); }",
            False,
        ),
        ("__global__ void k(cudaError_t* x) { *x = cudaSuccess; }", False),
        ("#include <cuda_fp16.h>\n__global__ void k(half* x) { x[0] = 1; }", False),
        ("#define ERROR cu##daError_t\n__global__ void k(ERROR* x) { *x = ERROR(); }", False),
    ],
)
def test_sources_that_need_no_runtime_are_compiled_without_it(
    monkeypatch: pytest.MonkeyPatch, source: str, plain: bool
) -> None:
    used: list[bool] = []
    compile = nvrtc.compile

    def noted(text: str, name: str, options: Sequence[str], *more: Any) -> nvrtc.NvrtcOutput:
        used.append("--minimal" in options)
        return compile(text, name, options, *more)

    monkeypatch.setattr(nvrtc, "compile", noted)
    assert ".entry" in build(source).text
    assert set(used) == {plain}  # with precompiled headers that NVRTC refuses it tries twice


def test_templates_by_name_expression() -> None:
    source = "template <class T> __global__ void saxpy(T a, const T* x, T* y) { *y += a * *x; }"
    ptx = build(source, name_expressions=["saxpy<float>", "saxpy<double>", "saxpy< int >"])
    assert ptx.entries["saxpy< int >"] == ptx.entries["saxpy<int>"] == "_Z5saxpyIiEvT_PKS0_PS0_"
    assert signature(ptx, "saxpy<double>") == [
        ("a", "double"),
        ("x", "double const*"),
        ("y", "double*"),
    ]
    assert build(source).entries == {}


# what the caller passes, where, a piece of what, a piece of next
ERRORS = [
    ({"source": SQUARE.replace("x[i] *", "z[i] *")}, "kernel.cu:3",
     'identifier "z" is undefined\n'
     "      if (i < n) y[i] = z[i] * x[i];\n"
     "                        ^", ""),
    ({"source": SQUARE.replace("x[i] * x[i];", "x[i] +"), "name": "mine.cu"}, "mine.cu:4",
     "expected an expression", ""),
    ({"source": "int f(int x) { return x; }\n"}, "kernel.cu:1",
     "is for the host", "__device__"),
    ({"source": "#include <nosuch.h>\n"}, "kernel.cu:1", "cannot open nosuch.h", "include=[...]"),
    ({"source": "#include <vector>\n"}, "kernel.cu:1", "vector is a header of", "weft run"),
    ({"source": "#include <type_traits>\n"}, "kernel.cu:1",
     "host's C++ library", "<cuda/std/type_traits>"),
    ({"source": SQUARE, "name_expressions": ["square<nosuch>"]}, "name expression",
     'identifier "nosuch" is undefined\n  square<nosuch>\n         ^', ""),
    ({"source": SQUARE, "options": ["--nosuch"]}, "kernel.cu", "unrecognized option --nosuch", ""),
    ({"source": "nosuch.cu"}, "nosuch.cu", "cannot read the source file", "a path that exists"),
    ({"source": "int x;\0\n"}, "kernel.cu", "NUL", ""),
    ({"source": 'extern "C" __global__ void k() { oops }\n'}, "kernel.cu:1",
     '"oops" is undefined', ""),
]  # fmt: skip


@pytest.mark.parametrize("call, where, what, next", ERRORS)
def test_errors_say_where_and_what(
    call: dict[str, object], where: str, what: str, next: str
) -> None:
    with pytest.raises(weft.errors.CompileError) as caught:
        build(call.pop("source"), **call)  # type: ignore[arg-type]
    assert caught.value.where == where
    assert what in caught.value.what
    assert next in caught.value.next
    assert "probe" not in str(caught.value) + caught.value.log


@pytest.mark.parametrize(
    ("source", "undefined", "next"),
    [
        ("// the larger one\nint x = Larger;", ["Larger"], ""),
        ('f("colour"); int x = color;', ["color"], ""),
        ("int resut; /* result */ resut = 1; rseut = 2;", ["rseut"], "did you mean 'resut'?"),
        # Either of the two may be the misspelt one.
        ("void f(int* ouput) { output[0] = output[1]; }", ["output"], "declares 'ouput'"),
        # Another name that is not there.
        ("x[threadIdxx.x] = y[thraedIdxx.x];", ["thraedIdxx", "threadIdxx"], "'threadIdx'?"),
        ("cosnt int x;", ["cosnt"], "did you mean 'const'?"),
    ],
)
def test_near_names_come_from_the_code(source: str, undefined: list[str], next: str) -> None:
    log = "".join(f'kernel.cu(1): error: identifier "{name}" is undefined\n' for name in undefined)
    said = diagnose.error(log, "kernel.cu", source).next
    assert next in said and bool(next) == bool(said)


UNUSED = "__global__ void k(float* x) {\n    int unused;\n    x[0] = 1;\n}\n"


def test_warnings_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for stored in (False, True):  # what comes from the cache warns in each process, too
        monkeypatch.setattr(remarks, "_shown", set())
        with pytest.warns(weft.CompileWarning) as caught:
            build(UNUSED, name="mine.cu")
            build(UNUSED, name="mine.cu")
        (only,) = caught
        assert only.filename == __file__, "the line that called weft"
        assert str(only.message).splitlines() == [
            'mine.cu:2: variable "unused" was declared but never referenced (#177)',
            "      int unused;",
            "          ^",
            "  next: fix it, or suppress it: options=['--diag-suppress=177']",
        ], stored
    build(UNUSED, name="mine.cu", options=["--diag-suppress=177"])
    build(UNUSED, name="mine.cu", options=["-w"])


def test_warnings_as_errors_fail_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remarks, "_shown", set())
    for _ in range(2):
        with pytest.raises(weft.CompileWarning):
            build(UNUSED)


def test_instances_of_a_template_repeat_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remarks, "_shown", set())
    source = UNUSED + "template <int N> __global__ void t(int* x) { int other; x[0] = N; }\n"
    with pytest.warns(weft.CompileWarning) as caught:
        module = weft.cuda(source)
        module.kernel("t<1>")
        module.kernel("t<2>")
    texts = [str(w.message) for w in caught]
    assert sum("unused" in text for text in texts) == 1, texts


def test_the_log_has_every_error() -> None:
    with pytest.raises(weft.errors.CompileError, match="and 1 more error: see") as caught:
        build("__global__ void k() { a; b; }\n")
    assert 'identifier "b" is undefined' in caught.value.log


def test_bad_architecture() -> None:
    with pytest.raises(weft.errors.CompileError, match="sm_80 or compute_80"):
        compile_cuda(SQUARE, arch="ampere")


def test_missing_wheel_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "wheels", lambda: {headers.NVRTC: "13"})
    what, next = headers.advice("curand_kernel.h")
    assert "nvidia-curand, which is not installed" in what
    assert next == installation.pip_install("curand") and next.endswith("[curand]'")
    assert headers.advice("cub/cub.cuh")[1] == "pip install nvidia-cuda-cccl"
    assert headers.advice("cuda_fp16.h")[1] == "pip install nvidia-cuda-runtime"


def test_extras_are_installed_from_where_weft_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a release is on PyPI, only a source tree has the extras."""

    def command(file: Path) -> str:
        monkeypatch.setattr(installation, "__file__", str(file))
        return installation.pip_install("triton")

    site = tmp_path / "site-packages"
    (site / "weft").mkdir(parents=True)
    assert command(site / "weft" / "errors.py") == "pip install 'weft-gpu[triton]'"
    record = site / "weft_gpu-0.1.0.dist-info" / "direct_url.json"
    record.parent.mkdir()
    record.write_text('{"dir_info": {}, "url": "file:///home/me/my%20weft"}')
    assert command(site / "weft" / "errors.py") == "pip install '/home/me/my weft[triton]'"
    tree = tmp_path / "tree"
    (tree / "src" / "weft").mkdir(parents=True)
    (tree / "pyproject.toml").touch()
    assert command(tree / "src" / "weft" / "errors.py") == f"pip install '{tree}[triton]'"


@pytest.mark.parametrize("checkout", [False, True])
def test_cutlass_is_found_in_its_wheel_or_a_checkout(
    checkout: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path if checkout else tmp_path / "cutlass_library" / "source"
    folders = [root / "include", root / "tools" / "util" / "include"]
    for folder in folders:
        folder.mkdir(parents=True)
    if checkout:
        monkeypatch.setenv(headers.CUTLASS_VARIABLE, str(tmp_path))
    else:
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert headers.cutlass.__wrapped__() == tuple(map(str, folders))


def test_a_header_that_nvcc_lacks_names_its_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "wheels", dict)
    log = "a.cu:1:10: fatal error: cutlass/gemm/device/gemm.h: No such file or directory"
    assert toolkit.failure("nvcc", "compile a.cu", log).next == "pip install nvidia-cutlass"


def test_missing_nvrtc_names_the_command() -> None:
    """A Python that finds neither NVRTC's wheel nor what looks for the library elsewhere."""
    code = "from weft.source import compile_cuda; compile_cuda('int x;', arch='sm_80')"
    hide = "from weft.source import nvrtc; nvrtc._WHEEL = 'missing'; sys.modules['cuda'] = None"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {hide}; {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "MissingDependency: NVRTC (the CUDA C++ compiler) cannot be loaded" in run.stderr
    assert "pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14'" in run.stderr


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel file with a header beside it and one in an include folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "src" / "k.cu").write_text(
        '#include "near.h"\n#include <far.h>\n__global__ void k(int* x) { *x = near() + far(); }\n'
    )
    (tmp_path / "src" / "near.h").write_text("__device__ int near() { return 1; }\n")
    (tmp_path / "lib" / "far.h").write_text("__device__ int far() { return FAR; }\n")
    return tmp_path


@pytest.mark.parametrize("path", ["src/k.cu", Path("src/k.cu")])
def test_path_with_headers_and_defines(path: str | Path, project: Path) -> None:
    ptx = build(path, include=["lib"], defines={"FAR": 41, "UNUSED": None, "YES": True})
    assert ptx.entries == {"k": "_Z1kPi"}
    assert '"src/k.cu"' in ptx.text
    assert set(ptx.sources) == {"src/k.cu", "src/near.h", "lib/far.h"}
    assert ", 42;" in ptx.text


def test_error_in_a_header_names_the_header(project: Path) -> None:
    (project / "src" / "near.h").write_text("\n__device__ int near() { return oops; }\n")
    with pytest.raises(weft.errors.CompileError) as caught:
        build("src/k.cu", include=["lib"], defines={"FAR": 1})
    assert caught.value.where.endswith("src/near.h:2")


def test_a_changed_header_is_compiled_again(project: Path) -> None:
    def constant(far: int = 1) -> str:
        text = build("src/k.cu", include=["lib"], defines={"FAR": far}).text
        return text.split("mov.u32 \t%r1, ")[1].split(";")[0]

    assert constant() == "2"
    (project / "src" / "near.h").write_text("__device__ int near() { return 10; }\n")
    assert constant() == "11"
    assert constant(far=5) == "15"


def test_a_computed_include_is_never_cached(project: Path, cache_dir: Path) -> None:
    (project / "v.h").write_text("#define V 1\n")
    source = '#define H "v.h"\n#include H\n__global__ void k(int* x) { *x = V; }\n'
    assert ", 1;" in build(source).text
    (project / "v.h").write_text("#define V 2\n")
    assert ", 2;" in build(source).text
    assert not cache_dir.exists()


def test_options_reach_the_compiler() -> None:
    source = "__global__ void k(float* x) { *x = 1.f / *x; }\n"
    assert "div.rn.f32" in build(source).text or "rcp.rn.f32" in build(source).text
    assert "rcp.approx.ftz.f32" in build(source, fast_math=True).text
    with pytest.raises(weft.errors.CompileError):
        build(
            "__global__ void k() { auto f = [](auto... x) { return (x + ...); }; }\n", std="c++11"
        )


def test_cached_compile_loads_no_compiler(cache_dir: Path) -> None:
    """Twice in new processes: the second must give the same PTX without loading the library."""
    code = (
        "import sys; from weft.source import compile_cuda, nvrtc\n"
        f"p = compile_cuda({SQUARE!r}, arch='sm_80')\n"
        "print(p.entries, p.signatures, p.sources, hash(p.text) and len(p.text))\n"
        "print(nvrtc._library.cache_info().currsize, 'numpy' in sys.modules)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (run.stdout.splitlines() for run in runs)
    assert first[0] == second[0]
    assert first[1] == "1 False"
    assert second[1] == "0 False"


def test_read_ptx(tmp_path: Path) -> None:
    made = build(SQUARE)
    (tmp_path / "k.ptx").write_text(made.text)
    for source in (made.text, str(tmp_path / "k.ptx"), tmp_path / "k.ptx"):
        ptx = read_ptx(source)
        assert (ptx.text, ptx.arch) == (made.text, "sm_80")
        assert ptx.entries == made.entries
        assert signature(ptx, "square") == [
            ("arg0", "float const*"),
            ("arg1", "float*"),
            ("arg2", "int"),
        ]


@pytest.mark.parametrize(
    "source, what", [("nosuch.ptx", "cannot read the PTX file"), ("hello", "no .target directive")]
)
def test_read_ptx_refuses(source: str, what: str) -> None:
    with pytest.raises(weft.errors.PtxError, match=what):
        read_ptx(source)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_compilations() -> None:
    """NVRTC's lock, held by another thread of the parent, would never be free in the child."""
    begun = threading.Event()

    def work() -> None:
        with nvrtc._running:
            begun.set()
            time.sleep(0.2)
            order.append("compiled")

    order: list[str] = []
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(order != ["compiled"] or nvrtc.compile("", "a.cu", []).ptx == "")
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert nvrtc.compile("", "a.cu", []).ptx


def test_other_work_is_done_while_nvrtc_works() -> None:
    """In another thread, for what is not cached; what goes wrong there is not raised here."""
    threads: list[str] = []

    def work() -> None:
        threads.append(threading.current_thread().name)
        raise ImportError

    made = [compile_cuda(SQUARE, arch="sm_80", meanwhile=work) for _ in range(2)]
    assert made[0] == made[1]
    assert threads == ["weft"]
