"""The rules of exercises: answers that are right but avoid what is taught fail, and say at what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft
from weft.frontends.program.sanitizer.traffic import Traffic
from weft.learn import chapter, exercise, header, program, puzzle, templates
from weft.learn.exercise import Exercise, ProgramExercise
from weft.learn.grade import grade
from weft.learn.program_rules import idle, several
from weft.learn.program_rules.rule import broken
from weft.measure.op import Case
from weft.values.findings import DeviceWork

pytestmark = pytest.mark.sim

EXERCISES = {e.title: e for c in chapter.chapters() for e in c.exercises}
PUZZLES = {a.title: a for p in puzzle.puzzles() for a in p.answers.values()}
SOLUTIONS = {
    title: one.solution.read_text("utf-8")
    for title, one in EXERCISES.items()
    if one.solution.suffix == ".cu"
}
ONE = "if (blockIdx.x == 0 && threadIdx.x == 0) for (int i = 0; i < n; i++)"
INDEX = "int i = blockIdx.x * 256 + threadIdx.x;"
CHEATS = {
    "one thread writes": (
        "02 guard",
        "__global__ void add(const float* a, const float* b, float* c, int n) {\n"
        f"  {ONE} c[i] = a[i] + b[i]; }}",
        "writing threads >= 1000",
    ),
    "others write too, and one thread overwrites them": (
        "puzzle zip, CUDA C++",
        "__global__ void zip(const float* a, const float* b, float* y) {\n"
        "  y[threadIdx.x] = 0; __syncthreads();\n"
        "  if (threadIdx.x == 0) for (int i = 0; i < blockDim.x; i++) y[i] = a[i] + b[i]; }",
        "writing threads >= 8",
    ),
    "no template": (
        "03 template",
        "template <typename T> struct Unused {};\n"
        "__global__ void lows(const float* x, const float* y, float* low, int n) {\n"
        f"  {INDEX} if (i < n) low[i] = x[i] < y[i] ? x[i] : y[i]; }}\n"
        "__global__ void highs(const float* x, const float* y, float* high, int n) {\n"
        f"  {INDEX} if (i < n) high[i] = x[i] > y[i] ? x[i] : y[i]; }}",
        "stores outside of templates = 0",
    ),
    "no shared memory": (
        "05 reverse",
        "__global__ void reverse(const float* x, float* y) {\n"
        "  y[blockIdx.x * 256 + threadIdx.x] = x[blockIdx.x * 256 + 255 - threadIdx.x]; }",
        "shared stores >= 8",
    ),
    "one thread counts": (
        "06 count",
        "__global__ void histogram(const unsigned char* x, int* counts, int n) {\n"
        f"  {ONE} counts[x[i]]++; }}",
        "global atomics >= 100",
    ),
    "one thread counts with atomics": (
        "06 count",
        "__global__ void histogram(const unsigned char* x, int* counts, int n) {\n"
        f"  {ONE} atomicAdd(&counts[x[i]], 1); }}",
        "reading threads >= 5000",
    ),
    "a loop in place of shuffles": (
        "07 shuffle",
        "__global__ void sums_of(const float* x, float* sums) {\n"
        "  float v = 0; for (int k = 0; k < 32; k++) v += x[blockIdx.x * 32 + k];\n"
        "  if (threadIdx.x == 0) sums[blockIdx.x] = v; }",
        "shuffles >= 80",
    ),
    "one thread of each block scans": (
        "07 scan",
        "__global__ void scan(const float* x, float* y) {\n"
        "  __shared__ float v[256]; int t = threadIdx.x, i = blockIdx.x * 256 + t;\n"
        "  v[t] = x[i]; __syncthreads();\n"
        "  if (t == 0) for (int k = 1; k < 256; k++) v[k] += v[k - 1];\n"
        "  __syncthreads(); y[i] = v[t]; }",
        "lanes per shared load >= 16",
    ),
    "a product without the library": (
        "10 layout",
        "def gemm(*arguments):\n    pass\n\n\ndef run(A, B, C, m, n, k):\n    C[...] = A @ B\n",
        "gemm computes the results",
    ),
    "the host computes beside an empty kernel": (
        "13 guard",
        "from numba import cuda\n\n\n@cuda.jit\ndef double(x, y):\n    pass\n\n\n"
        "def run(x, y, n):\n    y[:] = 2 * x\n    double[3, 128](x, y)\n",
        "a kernel computes the results",
    ),
    "the host computes, and a kernel copies": (
        "13 guard",
        "from numba import cuda\n\n\n@cuda.jit\ndef copy(t, y):\n    i = cuda.grid(1)\n"
        "    if i < t.size:\n        y[i] = t[i]\n\n\n"
        "def run(x, y, n):\n    copy[3, 128](2 * x, y)\n",
        "a kernel computes the results",
    ),
    "one launch does the work of two": (
        "16 both",
        "__global__ void square_backward() {}\n"
        "__global__ void sine_backward(const float* x, const float* dy, const float* dz, float* dx,"
        f" int n) {{\n  {INDEX}\n"
        "  if (i < n) dx[i] = dy[i] * 2 * x[i] + dz[i] * cosf(x[i]); }",
        "writing launches = 2",
    ),
    "no tensor cores": (
        "17 fragments",
        "#include <cuda_fp16.h>\n"
        "__global__ void multiply(const half* a, const half* b, float* c, int k) {\n"
        "  for (int e = threadIdx.x; e < 256; e += 32) {\n    float sum = 0;\n"
        "    for (int t = 0; t < 16 * k; t++)\n"
        "      sum += __half2float(a[e / 16 * 16 * k + t]) * __half2float(b[t * 16 + e % 16]);\n"
        "    c[e] = sum; } }",
        "tensor core instructions >= 4",
    ),
    "int8 weights loaded one by one": (
        "23 gemv",
        "__global__ void gemv(const signed char* q, const float* scale, const float* x, float* y,\n"
        "                     int rows, int k) {\n"
        "  int row = blockIdx.x * 4 + threadIdx.x / 32; if (row >= rows) return;\n"
        "  float sum = 0;\n"
        "  for (int i = threadIdx.x % 32; i < k; i += 32) sum += q[row * k + i] * x[i];\n"
        "  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);\n"
        "  if (threadIdx.x % 32 == 0) y[row] = scale[row] * sum; }",
        "load sectors per request >= 6",
    ),
    "pruned weights stored one by one": (
        "23 prune",
        "__global__ void prune(const signed char* w, signed char* p, int groups) {\n"
        "  int g = blockIdx.x * 128 + threadIdx.x; if (g >= groups) return;\n"
        "  for (int i = 0; i < 4; i++) {\n    int before = 0, mine = abs(w[4 * g + i]);\n"
        "    for (int j = 0; j < 4; j++) {\n      int other = abs(w[4 * g + j]);\n"
        "      before += other > mine || (other == mine && j < i); }\n"
        "    p[4 * g + i] = before < 2 ? w[4 * g + i] : 0; } }",
        "global stores <= 10",
    ),
    "a tile loaded by its threads": (
        "31 box",
        "__global__ void turn(const float* x, float* y, int h, int w) {\n"
        "  __shared__ float tile[16][17]; int u = threadIdx.x % 16, v = threadIdx.x / 16;\n"
        "  int column = 16 * blockIdx.x, row = 16 * blockIdx.y;\n"
        "  if (row + v < h && column + u < w) tile[v][u] = x[(row + v) * w + column + u];\n"
        "  __syncthreads();\n"
        "  if (row + u < h && column + v < w) y[(column + v) * h + row + u] = tile[u][v]; }",
        "tensor copies >= 6",
    ),
    "a ring of one stage": (
        "31 ring",
        SOLUTIONS["31 ring"].replace("<4>", "<1>").replace("[4]", "[1]"),
        "stages >= 3",
    ),
    "all threads wait for each other in each step": (
        "31 ring",
        SOLUTIONS["31 ring"].partition("    weft::Turn")[0]
        + "  weft::Turn<4> turn; float sum = 0;\n"
        "  for (int step = 0; step < steps; ++step, turn.next()) {\n"
        "    if (threadIdx.x == 64) {\n"
        "      stages.full[turn.stage].arrive_expecting(256);\n"
        "      weft::load_box(weft::shared_address(ring[turn.stage]), part,\n"
        "                     stages.full[turn.stage], 64 * step, blockIdx.x); }\n"
        "    stages.wait_full(turn); float v = ring[turn.stage][threadIdx.x % 64]; sum += v * v;\n"
        "    __syncthreads(); }\n"
        "  if (threadIdx.x < 64) y[blockIdx.x * 64 + threadIdx.x] = sum; }",
        "barriers <= 6",
    ),
    "products without warpgroups": (
        "31 product",
        "#include <cuda_bf16.h>\n"
        "__global__ void product(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int k) {"
        "\n  for (int e = threadIdx.x; e < 4096; e += 128) {\n    float sum = 0;\n"
        "    for (int t = 0; t < 64 * k; t++)\n"
        "      sum += float(A[e / 64 * 64 * k + t]) * float(B[t * 64 + e % 64]);\n"
        "    C[e] = sum; } }",
        "warpgroup products >= 32",
    ),
    "every block of a cluster reads the whole row": (
        "31 cluster",
        "#include <weft/block.cuh>\n"
        "__global__ void __cluster_dims__(4, 1, 1) shares(const float* x, float* y) {\n"
        "  const float* row = x + blockIdx.x / 4 * 1024; float sum = 0;\n"
        "  for (int k = threadIdx.x; k < 1024; k += 256) sum += row[k];\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; y[i] = x[i] / weft::block_sum<256>(sum); }",
        "cluster loads >= 12",
    ),
    "a tile that the mask hides is loaded": (
        "29 fused",
        SOLUTIONS["29 fused"].replace("min(first + QUERIES, n)", "n"),
        "bytes read per result <= 18",
    ),
    "an all-reduce of the library": (
        "30 allreduce",
        SOLUTIONS["30 allreduce"]
        .replace("step < 2 * (GPUS - 1)", "step < 0")
        .replace(
            "double sum = 0;",
            "double sum = 0;\n    ncclGroupStart();\n    for (int g = 0; g < GPUS; g++)\n"
            "        ncclAllReduce(x[g], x[g], n, ncclFloat, ncclSum, comms[g], streams[g]);\n"
            "    ncclGroupEnd();",
        ),
        "collectives per GPU = 0",
    ),
    "the host adds what GPUs were to add": (
        "30 allreduce",
        SOLUTIONS["30 allreduce"].replace("* h_x[i]", "* (4 * (i % 13) + 6 * (i % 3))"),
        "kernels of each GPU compute the results",
    ),
    "a program of Triton stores one by one": (
        "puzzle map, Triton",
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def one(x, y, N: tl.constexpr):\n    for i in range(N):\n"
        "        tl.store(y + i, tl.load(x + i) + 10)\n\n\n"
        "def run(x, y, n):\n    one[(1,)](x, y, n, num_warps=1)\n",
        "writing threads >= 8",
    ),
    "no kernel": (
        "puzzle map, Numba",
        "from numba import cuda\n\n\ndef run(x, y, n):\n    y[:] = x + 10\n",
        "a kernel computes the results",
    ),
}


def asked(title: str) -> Exercise:
    return PUZZLES[title.removeprefix("puzzle ")] if "puzzle" in title else EXERCISES[title]


@pytest.mark.parametrize("name", CHEATS)
def test_a_right_answer_that_avoids_the_task_fails_at_the_rule(name: str, tmp_path: Path) -> None:
    title, source, rule = CHEATS[name]
    path = tmp_path / asked(title).file
    path.write_text(source)
    result = grade(asked(title), path)
    assert result.stage == rule, result.words
    assert rule in result.words


def test_a_nan_that_is_lost_is_explained(tmp_path: Path) -> None:
    one = EXERCISES["03 template"]
    path = tmp_path / one.file
    path.write_text(one.solution.read_text().replace("a > b ? a : b", "fmaxf(a, b)"))
    result = grade(one, path)
    assert result.stage == "right" and "fmaxf return the number, of NaN" in result.words


def test_a_program_that_computes_on_the_host_fails_at_the_rule(tmp_path: Path) -> None:
    one = EXERCISES["18 order"]
    assert isinstance(one, ProgramExercise)
    path = tmp_path / one.file
    # The solution, but for what it prints.
    right = one.solution.read_text()
    path.write_text(right.replace('"%g\\n", result', '"%g\\n", 1.5 * n'))
    result = grade(one, path)
    assert result.stage == "a kernel computes the results", result.words
    silent = right.replace("cudaStreamWaitEvent", "// cudaStreamWaitEvent")
    assert program.uncalled(one, silent) == "cudaStreamWaitEvent"
    assert program.uncalled(one, right) == ""


def test_a_library_that_is_called_for_show_fails_at_the_rule(tmp_path: Path) -> None:
    one = EXERCISES["27 rows"]
    assert isinstance(one, ProgramExercise)
    path = tmp_path / one.file
    # The kernel computes both products, and the library is called if there are ten arguments.
    shown = SOLUTIONS["27 rows"].replace("= cublasSgemm(", "= count < 10 ? ok : cublasSgemm(")
    shown = shown.replace(
        "float one = 1", "cublasStatus_t ok = CUBLAS_STATUS_SUCCESS; float one = 1"
    )
    launch = "multiply<<<(m * n + 127) / 128, 128>>>(d_a, d_b, d_d, m, n, k);"
    path.write_text(shown.replace(launch, launch + launch.replace("d_d", "d_c")))
    result = grade(one, path)
    assert result.stage == "the number depends on cublasSgemm", result.words
    assert "stays right without cublasSgemm" in result.words


def test_a_call_that_does_nothing_has_a_result_of_its_type() -> None:
    text = "CHECK(cublasSgemm (h, f(1, 2), &c));\nfloat4 x = curand_uniform4(&s);\n"
    without = idle.function(idle.function(text, "cublasSgemm"), "curand_uniform4")
    assert without.splitlines()[-2:] == [
        "CHECK(IDLE_cublasSgemm(h, f(1, 2), &c));",
        "float4 x = IDLE_curand_uniform4(&s);",
    ]
    assert "#define IDLE_cublasSgemm(...) decltype(cublasSgemm(__VA_ARGS__))()" in without


def test_a_host_that_reads_unified_memory_too_early_is_found(tmp_path: Path) -> None:
    one = EXERCISES["21 managed"]
    path = tmp_path / one.file
    path.write_text(one.solution.read_text().replace("cudaDeviceSynchronize();", ""))
    result = grade(one, path)
    assert result.stage == "sanitize" and "the host touches memory" in result.words


def test_a_stage_that_reads_a_buffer_before_it_is_full_is_found(tmp_path: Path) -> None:
    one = EXERCISES["30 pipeline"]
    path = tmp_path / one.file
    wait = "cudaStreamWaitEvent(last.compute, last.full[b], 0);"
    assert wait in one.solution.read_text()
    path.write_text(one.solution.read_text().replace(wait, ""))
    result = grade(one, path)
    assert result.stage == "sanitize" and "ncclRecv" in result.words, result.words


def test_rules_on_what_gpus_send() -> None:
    devices = [DeviceWork(0, messages=2, bytes_sent=80), DeviceWork(1, collectives=1)]
    for rule, words in (
        ("messages per GPU = 2", ""),
        ("bytes sent per GPU <= 8 * n", ""),
        ("bytes sent per GPU <= 7 * n", "bytes sent per GPU is 80"),
        ("collectives per GPU = 0", "collectives per GPU is 1"),
        ("bytes allocated per GPU <= n", ""),
    ):
        assert broken(rule, several.facts(devices), {"n": 10}) == words
    none = several.facts([])
    assert broken("messages per GPU >= 1", none, {}) == "messages per GPU is 0"


def test_memory_of_a_gpu_counts_until_it_is_freed() -> None:
    traffic = Traffic()
    for device, nbytes in ((0, 100), (0, 50), (0, -100), (0, 60), (1, 8)):
        traffic.allocated(device, nbytes)
    for call in ("ncclSend", "ncclRecv", "ncclAllReduce"):
        traffic.called(1, call, 32)
    assert traffic.devices() == [
        DeviceWork(0, peak_memory=150),
        DeviceWork(1, collectives=1, messages=1, bytes_sent=32, peak_memory=8),
    ]


def test_every_exercise_and_puzzle_states_its_launch_and_its_rules() -> None:
    for one in (*EXERCISES.values(), *PUZZLES.values()):
        assert one.rules or one.by, one.title
        lines = [line.lstrip("/# ") for line in one.text.splitlines()]
        for rule in (*one.rules, one.by):
            assert not rule or any(line.endswith(rule) for line in lines), (one.title, rule)
        launched = r"launch .*a grid of [\dx ]+ blocks? with [\dx ]+ threads?( each)?$|<<<.*>>>"
        # A whole program that starts empty has no launch yet.
        stated = any(re.search(launched, line) for line in lines)
        assert stated or not one.gpu or isinstance(one, ProgramExercise), one.title


def test_the_head_of_a_file() -> None:
    launch = ["f<<<(cdiv(n, 32), 2), (8, 8)>>>"]
    head = header.lines(Path("f.cu"), launch, Case(n=64), ["writing threads >= 64"])
    assert header.stated("f.cu", "// About f.\nint f;\n", head).splitlines() == [
        "// About f.",
        "//",
        "// For n = 64:",
        f"//   launch  {launch[0]}: a grid of 2 x 2 blocks with 8 x 8 threads each",
        "//   rule    writing threads >= 64",
        "int f;",
    ]
    assert header.stated("f.cu", "int f;\n", ["x"]) == "// x\n\nint f;\n"
    assert header.stated("f.py", '"""About f."""\n\nf = 1\n', ["x"]) == (
        '"""About f."""\n\n# x\n\nf = 1\n'
    )


def test_templates_are_found_outside_of_comments() -> None:
    text = "// template <int N>\nint a;\ntemplate <int N>\nint f() {\n  if (N) {}\n}\nint b;\n"
    assert templates.lines(text) == {3, 4, 5, 6}
    assert templates.lines("template <class T> struct S;\nint a;\n") == {1}


def test_a_rule_on_an_unknown_fact_is_refused(tmp_path: Path) -> None:
    row = {
        "name": "f", "goal": "", "signature": "x:f32[n] -> y:f32[n]", "reference": "x",
        "cases": [{"n": 1}], "hints": [], "fails": "right", "rules": ["writing thread >= 8"],
    }  # fmt: skip
    files = exercise.Files(tmp_path, "f", "f.cu", "", tmp_path / "f.cu")
    with pytest.raises(weft.ArgumentError, match="names an unknown fact"):
        exercise.read("f", row, files)
    whole = {
        "name": "f", "goal": "", "arguments": {"n": [1, 2]}, "prints": "n", "hints": [],
        "fails": "right", "rules": ["writing threads >= 8"],
    }  # fmt: skip
    with pytest.raises(weft.ArgumentError, match=r"(?s)unknown fact.*overlapped copies"):
        exercise.read("f", whole, files)
    program_row = {
        "name": "f", "goal": "", "arguments": {"n": [1, 2]}, "prints": "n", "gpus": 2,
        "hints": [], "fails": "right", "rules": ["bytes sent <= 8"],
    }  # fmt: skip
    with pytest.raises(weft.ArgumentError, match="names an unknown fact"):
        exercise.read("f", program_row, files)
