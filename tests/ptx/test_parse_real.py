"""The PTX parser on what a compiler emits, on hostile text and on mutations of both."""

from __future__ import annotations

import cProfile
import random

import pytest
from cuda.bindings import nvrtc

from weft.errors import PtxError
from weft.ptx.model import Instruction, PtxFunction, PtxModule, Reg, Sym
from weft.ptx.parse import parse

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = (
    ".reg .pred p, q, %p<4>; .reg .b32 a, %r<10>; .reg .b64 %rd<5>;\n"
    ".reg .f32 %f<9>; .reg .v4 .f32 %v; .shared .b32 tile[64];\n"
)


def in_body(code: str) -> str:
    return f"{HEAD}.visible .entry k(.param .u64 out)\n{{\n{REGISTERS}{code}\n}}\n"


def instructions(function: PtxFunction) -> list[Instruction]:
    return [item for item in function.body if isinstance(item, Instruction)]


REAL = r"""
struct S { int a; double b[3]; char c; };
__constant__ float table[4] = {1, 2, 3.5f, -1};
__device__ int counter = 7;
__device__ int* pointer = &counter;
__device__ const char* text = "hello";
__managed__ int managed = 3;
extern __shared__ float dynamic[];
typedef float (*F)(float);
__device__ __noinline__ float f1(float x) { return x + 1; }
__device__ __noinline__ float f2(float x) { return sinf(x); }
__device__ F functions[2] = {f1, f2};
__device__ __noinline__ float helper(float x, S s) { return x * s.a + s.b[1]; }
__device__ __forceinline__ float square(float x) { return x * x + 1.0f; }
extern "C" __global__ void __launch_bounds__(256, 2) k(float* x, S s, int n, const float* y) {
    __shared__ float tile[32][33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x & 31][0] = square(y[i]);
    __syncthreads();
    float t = functions[n & 1](tile[0][threadIdx.x & 31]);
    if (i < n) { x[i] = helper(t, s) + table[i & 3] + dynamic[i] + *pointer + managed; }
    printf("%d %s\n", i, text);
    asm volatile("{ .reg .pred p; setp.gt.f32 p, %1, 0f00000000;\n @p bra L1;\n"
                 "add.f32 %0, %1, 0f3F800000;\n L1: }" : "=f"(x[3]) : "f"(t));
    #pragma unroll
    for (int j = 0; j < 200; j++) x[i + j * j] = fmaf(x[i + j], t, square(y[i + 3 * j]));
}
"""


@pytest.fixture(scope="module")
def real_ptx() -> str:
    _, program = nvrtc.nvrtcCreateProgram(REAL.encode(), b"real.cu", 0, [], [])
    options = [b"--gpu-architecture=compute_80", b"-lineinfo"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


@pytest.fixture(scope="module")
def real(real_ptx: str) -> PtxModule:
    return parse(real_ptx)


def test_real_module(real: PtxModule) -> None:
    k = real.functions["k"]
    assert real.entries == ["k"] and real.target == "sm_80"
    assert [(p.offset, p.size) for p in k.params] == [(0, 8), (8, 40), (48, 4), (56, 8)]
    assert k.param_bytes == 64 and k.directives["maxntid"][0] == 256
    assert real.variables["text"].relocations[0][3] and real.variables["managed"].managed
    assert [r[1] for r in real.variables["functions"].relocations] == ["_Z2f1f", "_Z2f2f"]
    assert real.variables["table"].init[8:12] == b"\0\0\x60\x40"
    assert {call.target for call in k.calls.values()} >= {Sym("vprintf"), Sym("_Z6helperf1S")}
    assert any(isinstance(call.target, Reg) and call.prototype for call in k.calls.values())
    assert any(v.size == 4224 for v in k.variables.values())


def test_real_lines_name_the_inlined_function(real: PtxModule) -> None:
    lines = [i.loc for i in instructions(real.functions["k"])]
    inlined = [loc for loc in lines if loc and loc.inlined_at]
    (first, *_) = inlined
    assert (first.line, first.function) == (14, "_Z6squaref")
    assert first.inlined_at is not None and first.inlined_at.line == 18
    assert first.file.endswith("real.cu") and str(first).endswith("real.cu:14")


def test_work_on_a_real_kernel(real_ptx: str, real: PtxModule) -> None:
    """Function calls stand for the time, which depends on the machine; 57 per instruction now."""
    count = sum(len(function.body) for function in real.functions.values())
    profile = cProfile.Profile()
    profile.runcall(parse, real_ptx)
    calls = sum(entry.callcount for entry in profile.getstats())
    assert count > 1000
    assert calls / count < 100, f"{calls} calls for {count} instructions"


LONG = 100_000
HOSTILE = {
    "open scopes": in_body("{" * LONG),
    "open brackets": in_body("add.s32 " + "[" * LONG + ";"),
    "open parentheses": in_body("add.s32 " + "(" * LONG + ";"),
    "signs": in_body("add.s32 " + "-" * LONG + "1;"),
    "sum": in_body("add.s32 1" + "+1" * LONG + ";"),
    "blanks after an opcode": in_body("mov" + " " * LONG + "x" * LONG),
    "blanks after a guard": in_body("@" + " " * LONG + "!" + " " * LONG),
    "blanks in a call": in_body("call f" + " " * LONG + "!;"),
    "blanks in a header": HEAD + ".entry" + " " * LONG + "!",
    "blanks in an initialiser": HEAD + ".global .b64 x[5] = {x" + " " * LONG + "!};",
    "open comments": HEAD + "/*" * LONG,
    "nested initialiser": HEAD + ".global .b8 x[5] = " + "{" * LONG + "}" * LONG + ";",
    "sparse initialiser": HEAD + ".global .b8 x[4][1000000000] = {{1},{2},{3}};",
    "digits": in_body("mov.u32 %r1, " + "1" * LONG + ";"),
    "dimensions": HEAD + ".global .b8 x" + "[2]" * LONG + ";",
    "qualifiers": HEAD + ".global " + ".b8 " * LONG + "x;",
    "not ASCII": in_body("mov.u32 %r\u0661, \u00b2;"),
    "long label": in_body("{ " + "a" * LONG + "}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused(name: str) -> None:
    """In work that is linear in its length: a quadratic parser would not end."""
    with pytest.raises(PtxError):
        parse(HOSTILE[name])


BODIES = [
    "mov.u32 %r1, -7 / 2 * (10 + 7) % 4; mad.lo.s32 %r1, %r2, 0x1F, 017;",
    "@!p ld.v4.f32 {%f1, _, %f2, %f3}, [%rd1+-4]; st.v4.f32 [tile+8], %v; mov.f32 %v.x, 1.5e3;",
    "setp.eq.and.s32 %p1|q, %r1, 0, !p; tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [tile, {%f5,%f6}];",
    "ts: .branchtargets A, B; brx.idx %r1, ts;\nA: B: { .reg .b32 a; L: bra L; }",
    "{ .param .b32 i; proto: .callprototype (.param .b32 _) _ (.param .b32 _); "
    "call (i), %rd1, (i, %r1, 7), proto; }",
    ".loc 1 4 5, function_name $L__info_string0+3, inlined_at 1 10 3\nmov.u32 %r1, %tid.x;",
]
MODULES = [
    ".global .u8 x[2][3] = {{1}, {2, 3}}; .global .f32 f[3] = {1.5, 0f40000000, 3};",
    ".global .u32 y; .global .u64 x[2] = {generic(y)+8, y-4}; .const .v2 .u16 z = {1, 2};",
    ".global .u8 x[8] = {0xFF(x), 0xFF00(x), 0xFF0000(x), 0xFF000000(x), 0xFF00000000(x), "
    "0xFF0000000000(x), 0xFF000000000000(x), 0xFF00000000000000(x)};",
    ".extern .shared .align 16 .b8 x[]; .global .attribute(.managed) .align 4 .u32 y = 3;",
    ".entry f(.param .u64 .ptr .global .align 16 a, .param .align 16 .b8 c[20]) .maxntid 256, 1, 1"
    " { ret; } .func (.reg .f32 r) g (.reg .f32 a) .noreturn; .alias h, g;",
    '.file 1 "a.cu", 12, 34\n.section .debug_str {\n$L: .b8 95,90\n.b8 49,0\n}\n',
]


def test_mutated_text_gives_a_module_or_a_ptx_error(real_ptx: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    texts = [*map(in_body, BODIES), *(HEAD + text for text in MODULES)]
    texts += [real_ptx, real_ptx[:9000]]
    refused = 0
    for _ in range(2500):
        text = rng.choice(texts)
        for _ in range(rng.randrange(1, 4)):
            text = rng.choice(MUTATIONS)(rng, text)
        try:
            parse(text)
        except PtxError as error:
            refused += 1
            assert error.where.startswith("kernel.ptx:")
    assert 1000 < refused < 2500


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _drop(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.randrange(1, 20) :]


def _insert(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    mark = rng.choice([*"{}[]()<>;:,.@!%|_-+$\"'/\\\n\0 09afx\u00b2\u0661", "/*", "//", "::", "0x"])
    return text[:start] + mark * rng.choice([1, 1, 1, 2, 50]) + text[start:]


def _replace(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + chr(rng.randrange(1, 256)) + text[start + 1 :]


def _repeat(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    end = start + rng.randrange(1, 60)
    return text[:end] + text[start:end] + text[end:]


def _number(rng: random.Random, text: str) -> str:
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    if not digits:
        return text
    at = rng.choice(digits)
    return text[:at] + rng.choice(["99999999999", "-1", "0", "0x7fffffffffffffff"]) + text[at + 1 :]


MUTATIONS = (_cut, _drop, _insert, _replace, _repeat, _number)
