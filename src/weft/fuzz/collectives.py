"""Operations of a warp or a block, as rows: how CUDA C++ says them and what the host does instead.

In a device's text `{x}` and `{k}` are a thread's own operands, `{d}` is the variable that takes the
result, and `mask` has the lanes that take part. On the host `X`, `K` and `IN` are arrays with the
operands of all threads, and `t` is the thread that asks.
"""

from __future__ import annotations

from dataclasses import dataclass

SHUFFLED = ("i32", "u32", "i64", "u64", "f32", "f64")
WORDS = ("i32", "u32")
MATCHED = ("i32", "u32", "u64")


@dataclass(frozen=True)
class Collective:
    """One row. `masked` ones take a condition; `whole` ones need warps of 32 threads."""

    name: str
    types: tuple[str, ...]
    device: str
    host: str
    masked: bool = False
    whole: bool = False
    result: str = "T"


def _shuffle(name: str, k: str, host: str, whole: bool) -> Collective:
    device = f"{{d}} = __shfl_{name}(mask, {{x}}, {k}, {{width}});"
    return Collective(name, SHUFFLED, device, host, whole=whole)


def _reduce(name: str, types: tuple[str, ...], body: str) -> Collective:
    both = f"[]({{T}} a, {{T}} b) {{{{ return ({{T}})({body}); }}}}"
    host = f"reduce_of<{{T}}>(X, IN, t, threads, {both})"
    device = f"{{d}} = __reduce_{name}_sync(mask, {{x}});"
    return Collective(f"reduce_{name}", types, device, host, masked=True)


def _atomic(name: str, types: tuple[str, ...], body: str) -> Collective:
    """Atomics on eight counters in shared memory, which every thread then reads."""
    device = (
        "{{ __shared__ {T} counters[8]; for (u32 i = THREAD; i < 8; i += THREADS) counters[i] = 0; "
        f"__syncthreads(); {name}(&counters[({{k}}) & 7], {{x}}); __syncthreads(); "
        "{d} = counters[(({k}) >> 3) & 7]; __syncthreads(); }}"
    )
    host = (
        "[&] {{ {T} c[8] = {{}}; for (u32 i = 0; i < threads; i++) "
        f"{{{{ {{T}} a = c[K[i] & 7], b = X[i]; c[K[i] & 7] = ({{T}})({body}); }}}} "
        "return c[(K[t] >> 3) & 7]; }}()"
    )
    return Collective(name, types, device, host)


_ROWS = (
    _shuffle("sync", "(i32)({k} % LANES)", "shfl_idx<{T}>(X, t, threads, K[t], {width})", False),
    _shuffle("up_sync", "{k} & 31", "shfl_up<{T}>(X, t, K[t], {width})", False),
    _shuffle("down_sync", "{k} & 31", "shfl_down<{T}>(X, t, K[t], {width})", True),
    _shuffle("xor_sync", "(i32)({k} & ({width} - 1))", "shfl_xor<{T}>(X, t, K[t], {width})", True),
    Collective("first", SHUFFLED, "{d} = __shfl_sync(mask, {x}, __ffs((i32)mask) - 1);",
               "first_of<{T}>(X, IN, t, threads)", True),
    Collective("ballot", WORDS, "{d} = __ballot_sync(mask, ({x}) != 0);",
               "ballot_of<{T}>(X, IN, t, threads)", True, result="u32"),
    Collective("any", WORDS, "{d} = (u32)__any_sync(mask, ({x}) > 7);",
               "(u32)(reduce_of<{T}>(X, IN, t, threads, []({T} a, {T} b) "
               "{{ return a < b ? b : a; }}) > 7)", True, result="u32"),
    Collective("all", WORDS, "{d} = (u32)__all_sync(mask, ({x}) > 7);",
               "(u32)(reduce_of<{T}>(X, IN, t, threads, []({T} a, {T} b) "
               "{{ return a < b ? a : b; }}) > 7)", True, result="u32"),
    Collective("match", MATCHED, "{d} = __match_any_sync(mask, {x});",
               "match_of<{T}>(X, IN, t, threads)", True, result="u32"),
    _reduce("add", WORDS, "(u32)a + (u32)b"),
    _reduce("min", WORDS, "a < b ? a : b"),
    _reduce("max", WORDS, "a < b ? b : a"),
    _reduce("xor", ("u32",), "a ^ b"),
    Collective("exchange", (*SHUFFLED, "i8", "u16"),
               "{{ __shared__ {T} all[THREAD_COUNT]; all[THREAD] = {x}; __syncthreads(); "
               "{d} = all[({k}) % THREADS]; __syncthreads(); }}", "X[K[t] % threads]"),
    Collective("count", WORDS, "{d} = (u32)__syncthreads_count(({x}) > 99);",
               "[&] {{ u32 n = 0; for (u32 i = 0; i < threads; i++) n += X[i] > 99; "
               "return n; }}()", result="u32"),
    _atomic("atomicAdd", ("i32", "u32", "u64"), "(u64)a + (u64)b"),
    _atomic("atomicMax", ("i32", "u32", "i64", "u64"), "a < b ? b : a"),
    _atomic("atomicXor", ("u32", "u64"), "a ^ b"),
)  # fmt: skip

COLLECTIVES = {row.name: row for row in _ROWS}
