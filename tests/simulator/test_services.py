"""Host services for a running kernel: printf, assert, malloc and free."""

from __future__ import annotations

import ctypes
import re
import struct
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import weft
from weft.device.sim import printing_threads
from weft.device.sim.run.heap import GAP, Heap
from weft.device.sim.run.printf import MAX_FIELD, PrintfArguments, render
from weft.device.sim.run.services import STRING_BYTES

# format, arguments as C would pass them, text as glibc writes it
FORMATS: list[tuple[str, tuple[int | float | str, ...], str]] = [
    ("plain", (), "plain"),
    ("100%%", (), "100%"),
    ("%d %i", (-1, 42), "-1 42"),
    ("%u", (-1,), "4294967295"),
    ("%x %X %#x %#o %o", (255, 255, 255, 8, 8), "ff FF 0xff 010 10"),
    ("%x", (-1,), "ffffffff"),
    ("%#x", (0,), "0"),
    ("%5d|%-5d|%05d|%+d|% d", (7, 7, 7, 7, 7), "    7|7    |00007|+7| 7"),
    ("%.3d|%08.3d|%.0d", (7, 7, 0), "007|     007|"),
    ("%*d|%-*d|%*d", (4, 7, 4, 7, -4, 7), "   7|7   |7   "),
    ("%hd %hhd %hu", (70000, 300, 65537), "4464 44 1"),
    ("%c%c%c", (72, 105, 33), "Hi!"),
    ("%5c|%-3c|", (65, 66), "    A|B  |"),
    ("%f %.2f %8.3f|%-8.1f|", (1.5, 2.345, 3.14159, 2.5), "1.500000 2.35    3.142|2.5     |"),
    ("%e %.1E", (12345.678, 0.00012), "1.234568e+04 1.2E-04"),
    ("%g %g %G %#g", (1e-5, 1234567.0, 1e20, 1.0), "1e-05 1.23457e+06 1E+20 1.00000"),
    ("%a", (1.5,), "0x1.8p+0"),
    ("%f %F %05f", (float("inf"), float("-inf"), float("nan")), "inf -INF   nan"),
    ("%.*f", (2, 1.006), "1.01"),
    ("%.*f", (-1, 1.5), "1.500000"),
    ("%s %10s|%-5s|%.2s", ("abc", "right", "l", "cut"), "abc      right|l    |cu"),
    ("%c then NUL %s", (0, "x"), "\0 then NUL x"),
    ("%q %", (), "%q %"),
]
LONG: list[tuple[str, tuple[int, ...], str]] = [
    ("%ld %li", (-(2**40), 2**40), "-1099511627776 1099511627776"),
    ("%lld %llu", (-1, -1), "-1 18446744073709551615"),
    ("%llx %lX", (2**63, 255), "8000000000000000 FF"),
    ("%zu %jd %td", (2**33, -5, 6), "8589934592 -5 6"),
    ("%p", (0xDEADBEEF0,), "0xdeadbeef0"),
    ("%20lld|%-20lld|", (1, 2), "                   1|2                   |"),
]


class Packed:
    """Arguments as a compiler packs them: each at its natural alignment."""

    def __init__(self, values: tuple[int | float | str, ...], integer: str = "<i") -> None:
        self.strings: list[ctypes.Array[ctypes.c_char]] = []
        data = bytearray()
        for v in values:
            piece = self._pack(v, integer)
            data += b"\0" * (-len(data) % len(piece)) + piece
        self.buffer = ctypes.create_string_buffer(bytes(data) + b"\0", max(8, len(data) + 1))
        self.arguments = PrintfArguments(ctypes.addressof(self.buffer), ctypes.string_at)

    def _pack(self, v: int | float | str, integer: str) -> bytes:
        if isinstance(v, str):
            self.strings.append(ctypes.create_string_buffer(v.encode()))
            return struct.pack("<Q", ctypes.addressof(self.strings[-1]))
        if isinstance(v, float):
            return struct.pack("<d", v)
        size = struct.calcsize(integer)
        return (v % (1 << 8 * size)).to_bytes(size, "little")


def text_of(form: str, packed: Packed) -> str:
    def string(address: int, limit: int | None) -> bytes:
        return ctypes.string_at(address, -1 if limit is None else limit).partition(b"\0")[0]

    return render(form.encode(), packed.arguments, string).decode()


@pytest.mark.parametrize(("form", "values", "want"), FORMATS, ids=[row[0] for row in FORMATS])
def test_formats(form: str, values: tuple[int | float | str, ...], want: str) -> None:
    packed = Packed(values)
    assert text_of(form, packed) == want
    assert packed.arguments.count == len(values)


@pytest.mark.parametrize(("form", "values", "want"), LONG, ids=[row[0] for row in LONG])
def test_long_formats(form: str, values: tuple[int, ...], want: str) -> None:
    assert text_of(form, Packed(values, "<q")) == want


def test_a_field_has_a_limit() -> None:
    with pytest.raises(weft.DeviceError, match=f"allowed: up to {MAX_FIELD}"):
        text_of("%*d", Packed((2**30, 1)))


def test_a_wide_field() -> None:
    assert text_of("%1000d", Packed((5,))) == " " * 999 + "5"


SOURCE = r"""
struct Node { int value; Node* next; };
__device__ Node* kept;
__device__ __noinline__ void push(Node** head, int v) {
    Node* n = (Node*)malloc(sizeof(Node));
    n->value = v; n->next = *head; *head = n;
}
#define I (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" {
__global__ void hello(const char* name, int n) {
    __shared__ char word[8];
    if (threadIdx.x == 0) { word[0] = 'w'; word[1] = 'x'; word[2] = 0; }
    __syncthreads();
    if (I % 3 == 1) printf("%d/%d %s %s %.1f %lld\n", I, n, name, word, I / 2.0, 1ll << 40);
}
__global__ void counts(int* o) { o[0] = printf("none\n"); o[1] = printf("%d %*d\n", 1, 2, 3); }
__global__ void wild() { printf("%s\n", (const char*)0x1234); }
__global__ void unended(const char* s) { printf("%s\n", s); }
__global__ void null() { printf("%s\n", (const char*)0); }
__global__ void checked(const int* x, int n) { if (I < n) assert(x[I] > 0); }
__global__ void lists(int* o) {
    Node* head = 0;
    for (int k = 0; k <= I % 5; k++) push(&head, k + I);
    int s = 0;
    while (head) { s = 3 * s + head->value; Node* next = head->next; free(head); head = next; }
    o[I] = s;
}
__global__ void keep(int v) { push(&kept, v); }
__global__ void kept_sum(int* o) { for (Node* n = kept; n; n = n->next) o[0] += n->value; }
__global__ void large(unsigned long long* o) { o[I] = (unsigned long long)malloc(1 << 20); }
__global__ void twice() { void* p = malloc(8); free(p); free(p); }
__global__ void middle() { char* p = (char*)malloc(8); free(p + 4); }
__global__ void after(int* o) {
    int* p = (int*)malloc(8);
    p[0] = 1; o[0] = ((volatile int*)p)[0];
    free(p); o[1] = ((volatile int*)p)[0];
}
__global__ void past() { int* p = (int*)malloc(8); p[2] = 1; }
__global__ void nothing(int* o) { free(0); o[0] = malloc(0) == 0; }
}
"""


@cache
def module() -> weft.Module:
    return weft.cuda(SOURCE)


def chars(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.int8)


def test_printf(capsys: pytest.CaptureFixture[str]) -> None:
    """Lanes in order, none cut by another; strings from arrays, shared memory and literals."""
    module().hello[2, 64](chars(b"name\0"), 7)
    lines = capsys.readouterr().out.splitlines()
    for block in range(2):
        mine = [x for x in lines if int(x.split("/")[0]) // 64 == block]
        threads = [i for i in range(64 * block, 64 * block + 64) if i % 3 == 1]
        assert mine == [f"{i}/7 name wx {i / 2:.1f} {1 << 40}" for i in threads]


def test_printf_gives_the_number_of_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    out = np.zeros(2, np.int32)
    module().counts[1, 1](out)
    assert capsys.readouterr().out == "none\n1  3\n"
    assert out.tolist() == [0, 3]


def test_printf_of_null(capsys: pytest.CaptureFixture[str]) -> None:
    module().null[1, 1]()
    assert capsys.readouterr().out == "(null)\n"


def test_printf_reads_no_foreign_memory() -> None:
    with pytest.raises(weft.IllegalAddress, match="string is not in the kernel's memory"):
        module().wild[1, 1]()
    with pytest.raises(weft.IllegalAddress, match="does not end inside its memory"):
        module().unended[1, 1](chars(b"abc"))


def test_strings_have_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit counts what is printed: the memory that a string lies in may be larger."""
    memory = np.zeros(1 << 31, np.int8)  # pages that are not touched cost nothing
    memory[:STRING_BYTES] = ord("a")
    module().unended[1, 1](memory)
    assert capsys.readouterr().out == "a" * STRING_BYTES + "\n"
    memory[STRING_BYTES] = ord("a")
    with pytest.raises(weft.DeviceError, match="string of the kernel is too long"):
        module().unended[1, 1](memory)


def test_assert_names_the_thread() -> None:
    x = np.ones(100, np.int32)
    x[70] = 0
    with pytest.raises(weft.AssertFailed) as caught:
        module().checked[2, 64](x, 100)
    error = caught.value
    assert error.what.startswith("assertion `x[")
    assert re.search(r"kernel\.cu:\d+", error.where)
    assert (error.block, error.thread, error.kernel) == ((1, 0, 0), (6, 0, 0), "checked")
    x[70] = 1
    module().checked[2, 64](x, 100)


def folded(i: int) -> int:
    s = 0
    for k in reversed(range(i % 5 + 1)):
        s = 3 * s + k + i
    return s


def test_lists_from_malloc() -> None:
    out = np.zeros(512, np.int32)
    module().lists[4, 128](out)
    assert out.tolist() == [folded(i) for i in range(512)]


def test_memory_outlives_its_launch() -> None:
    fresh = weft.cuda(SOURCE)
    for v in (1, 20, 300):
        fresh.keep[1, 1](v)
    out = np.zeros(1, np.int32)
    fresh.kept_sum[1, 1](out)
    assert out[0] == 321


def test_the_heap_has_an_end() -> None:
    out = np.zeros(32, np.uint64)
    weft.cuda(SOURCE).large[1, 32](out)
    given = sorted(int(x) for x in out if x)
    assert len(given) == 7
    assert all(b - a > 1 << 20 for a, b in pairwise(given))


def test_malloc_of_nothing() -> None:
    out = np.zeros(1, np.int32)
    module().nothing[1, 1](out)
    assert out[0] == 1


MISUSE = [
    ("twice", 0, weft.DeviceError, "not a live allocation"),
    ("middle", 0, weft.DeviceError, "not a live allocation"),
    ("after", 2, weft.IllegalAddress, "out-of-bounds read of 4 bytes"),
    ("past", 0, weft.IllegalAddress, "out-of-bounds write of 4 bytes"),
]


@pytest.mark.parametrize(("name", "ints", "kind", "message"), MISUSE, ids=[r[0] for r in MISUSE])
def test_misuse(name: str, ints: int, kind: type[weft.Error], message: str) -> None:
    arguments = [np.zeros(ints, np.int32)] if ints else []
    with pytest.raises(kind, match=message):
        module().kernel(name)[1, 1](*arguments)


SERVICES = """.version 8.0
.target sm_80
.address_size 64
.extern .func free (.param .b64 p);
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.visible .entry k() { .reg .b64 %rd<3>; .reg .b32 %r<3>; mov.u64 %rd1, 0;
"""
BEYOND = {
    "free": "{ .param .b64 p; st.param.b64 [p+15], %rd1;\n call.uni free, (p); }",
    "malloc": "{ .param .b64 p; .param .b64 r; st.param.b64 [p+8], %rd1;\n"
    " call.uni (r), malloc, (p); }",
    "vprintf": "{ .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %rd1;"
    " st.param.b32 [q+4], %r1;\n call.uni (r), vprintf, (p, q); }",
}


@pytest.mark.parametrize("service", BEYOND)
def test_an_argument_is_stored_as_one_value(service: str) -> None:
    with pytest.raises(weft.PtxError, match=f"of {service} is one value of 8 bytes") as raised:
        weft.load_ptx(f"{SERVICES}{BEYOND[service]} ret; }}").k[1, 32]()
    assert raised.value.where == "PTX line 8" and raised.value.got.startswith("st.param")


def test_heap_joins_what_is_freed() -> None:
    heap = Heap(1024)
    given = [heap.malloc(48) for _ in range(16)]
    assert all(given) and all(x % 16 == 0 for x in given)
    assert heap.malloc(48) == 0
    for address in np.random.default_rng(3).permutation(given):
        heap.free(int(address))
    assert heap.malloc(1024 - GAP) == given[0]


def test_heap_shares_nothing() -> None:
    """Random requests: what is live never overlaps, and lies inside the block."""
    rng, heap, live = np.random.default_rng(4), Heap(1 << 14), {}
    for _ in range(2000):
        if live and rng.random() < 0.45:
            heap.free(live.popitem()[0])
        elif address := heap.malloc(size := int(rng.integers(1, 700))):
            live[address] = size
        spans = sorted(live.items())
        for (a, n), (b, _) in pairwise(spans):
            assert a + n + GAP <= b
    assert heap.live == live


PRINTING = """
__global__ void steps() {
    for (int i = 0; i < 2; i++) printf("step %d\\n", i);
    if (threadIdx.x == 1 && threadIdx.y == 2) printf("one");
}
"""
SELECTED = {
    "thread=1,2": [f"block ({b}, 0, 0), thread (1, 2, 0): {x}" for b in range(3)
                   for x in ("step 0", "step 1", "one")],
    "block=2 thread=0": [f"block (2, 0, 0), thread (0, 0, 0): step {i}" for i in range(2)],
    "block=3": [],
}  # fmt: skip


@pytest.mark.parametrize(("words", "lines"), SELECTED.items(), ids=SELECTED.keys())
def test_printf_of_chosen_threads(
    words: str,
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEFT_PRINTF_FROM", words)
    weft.cuda(PRINTING).steps[3, (32, 3)]()
    assert capsys.readouterr().out.splitlines() == lines


def test_printf_of_all_threads_is_in_their_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_PRINTF_FROM", "all")
    weft.cuda(PRINTING).steps[3, (32, 3)]()
    found = capsys.readouterr().out.splitlines()
    assert len(found) == 3 * 96 * 2 + 3
    assert found[2] == "block (0, 0, 0), thread (1, 0, 0): step 0"
    assert found[-1] == "block (2, 0, 0), thread (31, 2, 0): step 1"


@pytest.mark.parametrize(
    "words", ["thread", "block=0 x", "block=a", "thread=1,2,3,4", "block=0 block=1"]
)
def test_threads_that_cannot_be_read(words: str) -> None:
    with pytest.raises(weft.Error, match="--printf-from names no block or thread"):
        printing_threads.parse(words, "--printf-from")
