"""Float arithmetic under every rounding mode, with `.ftz` and the hardware's NaN of f64."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.builder import Builder, Val
from weft.ir.flush import flush, flush_rounded, from_bits, rarely, raw_bits

_MODES = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
"""As `llvm.set.rounding` numbers them."""

_LETTER = {"float": "f32", "double": "f64"}

_NAN_ORDER = {
    "fadd": (1, 0), "fsub": (1, 0), "fmul": (1, 0), "fma": (1, 2, 0), "fdiv": (0, 1), "sqrt": (0,),
}  # fmt: skip
"""The operands whose NaN an f64 operation returns, in order of priority."""

_SCALED = {"fmul": (0,), "fma": (0, 2), "fdiv": (0,)}
"""Operands that carry a power of two into the result; other operations have no tiny rounding."""


def rounded(
    b: Builder, op: str, args: Sequence[Val], mode: str = "rn", *, ftz: bool = False
) -> Val:
    """`op` (fadd, fsub, fmul, fdiv, fma, sqrt) rounded once; an f64 NaN has its exact bits."""
    if not ftz:
        result = _plain(b, op, args, mode)
        return nan64(b, result, [args[i] for i in _NAN_ORDER[op]])
    # `.ftz` flushes the sources too, before the operation.
    args = [flush(b, a) for a in args]
    result = _plain(b, op, args, mode)
    if op not in _SCALED:  # a denormal sum is exact, a root is never tiny
        return result if op == "sqrt" else flush(b, result)

    def scaled(b: Builder, *args: Val) -> Val:
        up = b.const("float", 2.0**24)
        return _plain(b, op, [a * up if i in _SCALED[op] else a for i, a in enumerate(args)], mode)

    return flush_rounded(b, f"{op}.{mode}", result, args, scaled)


def _plain(b: Builder, op: str, args: Sequence[Val], mode: str) -> Val:
    if mode != "rn":
        return _directed(b, op, b.match(*args), mode)
    if op == "sqrt":
        return _nan_of_root(b, b.intrinsic(op, args))
    return b.fma(*args) if op == "fma" else b.binary(op, args[0], args[1])


def _nan_of_root(b: Builder, r: Val) -> Val:
    """An f32 root with the canonical NaN, detected by its bits.

    With a float comparison, LLVM would take it for `x < 0 ? NaN : sqrt(x)` and drop the choice,
    since the processor's root gives a NaN there too, if another one.
    """
    if r.element != "float":
        return r
    bits = raw_bits(b, r)
    return from_bits(b, (bits << 1).ule(0xFF000000).select(bits, 0x7FFFFFFF))


def _directed(b: Builder, op: str, args: Sequence[Val], mode: str) -> Val:
    """The processor's own rounding mode, set around one operation that may not move.

    Out of line and `strictfp`, so that nothing of the caller runs under that mode.
    """
    ty, n, shape = args[0].element, args[0].lanes, args[0].type
    kind = (f"v{n}" if n else "") + _LETTER[ty]
    name = f"@llvm.experimental.constrained.{op}.{kind}"

    def body(b: Builder, params: list[Val]) -> Val:
        kinds = ", ".join([shape] * len(params))
        b.module.declarations[name] = f"declare {shape} {name}({kinds}, metadata, metadata)"
        b.module.declarations["@llvm.set.rounding"] = "declare void @llvm.set.rounding(i32)"
        operands = ", ".join(p.typed for p in params)
        rules = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'
        b.emit(f"call void @llvm.set.rounding(i32 {_MODES[mode]}) #4")
        out = b.val(ty, n, f"call {shape} {name}({operands}, {rules}) #4")
        b.emit(f"call void @llvm.set.rounding(i32 {_MODES['rn']}) #4")
        return out

    call = b.helper(f"{op}.{mode}.{kind}", [(ty, n)] * len(args), (ty, n), body, attrs="#3")
    out = call(*args)
    out.raw_nan = True
    return out


def nan64(b: Builder, result: Val, sources: Sequence[Val]) -> Val:
    """An f64 result whose NaN is the first among `sources`, made quiet, or the default one."""
    if result.element != "double":
        return result

    def fix(b: Builder, r: Val, *sources: Val) -> Val:
        # An invalid f64 operation gives this NaN on an H200; for f32 it gives 0x7FFFFFFF.
        bits = b.integer("i64", 0xFFF8000000000000)
        for source in reversed(sources):
            bits = b.is_nan(source).select(raw_bits(b, source) | (1 << 51), bits)
        return b.reinterpret(b.select(b.is_nan(r), bits, raw_bits(b, r)), "double")

    return rarely(
        b,
        b.any(b.is_nan(result)),
        result,
        lambda: b.lanewise(f"nan64.{len(sources)}", [result, *sources], "double", fix),
    )
