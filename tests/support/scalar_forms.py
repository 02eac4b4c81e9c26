"""Forms of scalar instructions that were added after the first recordings, as probes."""

from __future__ import annotations

from probes import Probe

_PACKED = "add min max"


def _words(opcode: str, sources: int, kind: str = "edges") -> Probe:
    regs = ", ".join(f"%a{i}" for i in range(sources))
    return Probe(f"{opcode} %d0, {regs};", (kind,) * sources)


def _halves(opcode: str, kind: str) -> Probe:
    """Three 16-bit sources, the low halves of words."""
    load = " ".join(f"cvt.u16.u32 %h{i}, %a{i};" for i in range(3))
    text = f"{opcode} %h3, %h0, %h1, %h2;"
    return Probe(text, (kind,) * 3, code=f"{load} {text} cvt.u32.u16 %d0, %h3;")


def _reduce(op: str, kind: str, data: str) -> Probe:
    """The words of shared memory onto those of global memory."""
    text = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [%x1], [%near], 128;"
    code = f"""shl.b32 %n4, %n0, 2; add.u32 %n4, %n4, %near; st.shared.b32 [%n4], %a0;
  st.global.b32 [%x1], %a1; fence.proxy.async; bar.warp.sync -1; setp.ne.u32 %p, %n0, 0;
  @%p bra waited; {text} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
waited: bar.warp.sync -1; ld.global.b32 %d0, [%x1];"""
    return Probe(text, (data, data), code=code)


REDUCTIONS = [
    *((op, kind, "edges") for op in ("add", "min", "max") for kind in ("u32", "s32")),
    *((op, "u32", "edges") for op in ("inc", "dec")),
    *((op, "b32", "edges") for op in ("and", "or", "xor")),
    ("add", "u64", "edges"), ("min", "s64", "edges"), ("max", "u64", "edges"),
    ("add.noftz", "f16", "f16"), ("min", "f16", "f16"), ("max", "f16", "f16"),
    ("add.noftz", "bf16", "bf16"), ("min", "bf16", "bf16"), ("max", "bf16", "bf16"),
    ("add", "f32", "f32"), ("add", "f64", "f32"),
]  # fmt: skip

VIDEO = """
vadd.s32.s32.u32.sat.min %d0, %a0, %a1, %a2;
vadd.u32.s32.s32.min %d0, %a0, %a1, %a2;
vadd.u32.u32.u32.max %d0, %a0, %a1, %a2;
vsub.s32.s32.u32.sat.max %d0, %a0, %a1, %a2;
vabsdiff.u32.s32.s32.max %d0, %a0, %a1, %a2;
vmin.s32.s32.u32.max %d0, %a0, %a1, %a2;
vmin.u32.u32.u32.min %d0, %a0, %a1, %a2;
vmax.s32.s32.s32.min %d0, %a0, %a1, %a2;
vset.u32.s32.ge.min %d0, %a0, %a1, %a2;
vset.s32.s32.lt.max %d0, %a0, %a1, %a2;
vshl.u32.u32.u32.clamp %d0, %a0, %a1;
vshl.s32.u32.u32.clamp %d0, %a0, %a1;
vshl.u32.u32.u32.wrap %d0, %a0, %a1;
vshr.u32.u32.u32.clamp %d0, %a0, %a1;
vshr.s32.s32.u32.clamp %d0, %a0, %a1;
vshr.s32.s32.u32.wrap %d0, %a0, %a1;
vshr.u32.s32.u32.sat.clamp %d0, %a0, %a1;
vshl.u32.u32.u32.wrap.add %d0, %a0, %a1, %a2;
vshl.u32.u32.u32.clamp.min %d0, %a0, %a1, %a2;
vshr.s32.s32.u32.clamp.max %d0, %a0, %a1, %a2;
""".strip().splitlines()


def packed() -> list[Probe]:
    """Two 16-bit numbers in a register, and results not below zero."""
    out = [_words(f"{op}.{kind}", 2) for op in _PACKED.split() for kind in ("u16x2", "s16x2")]
    return out + [_words(f"{op}.relu.{k}", 2) for op in ("min", "max") for k in ("s16x2", "s32")]


def outside() -> list[Probe]:
    """`fma.oob`."""
    out = []
    for kind in ("f16", "bf16"):
        for relu in ("", ".relu"):
            out.append(_halves(f"fma.rn.oob{relu}.{kind}", f"outside {kind}"))
            out.append(_words(f"fma.rn.oob{relu}.{kind}x2", 3, f"outside {kind}"))
    return out


def reductions() -> list[Probe]:
    """`cp.reduce.async.bulk` onto global memory."""
    return [_reduce(*form) for form in REDUCTIONS]


def video() -> list[Probe]:
    """Second operations and shifts of video instructions."""
    return [Probe(text, ("edges",) * (3 if "%a2" in text else 2)) for text in VIDEO]


def probes() -> list[Probe]:
    """All of them."""
    return packed() + outside() + reductions() + video()
