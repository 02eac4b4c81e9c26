"""The forms of `mma.sp` that an assembler takes, as probes."""

from __future__ import annotations

from probes import Probe
from weft.ir.tensor_layout import WIDTH, shape_of

FLOAT_FORMS = [
    ("m16n8k16", "f16", "f16", "f16", 4), ("m16n8k16", "f32", "f16", "f16", 4),
    ("m16n8k16", "f32", "bf16", "bf16", 4), ("m16n8k32", "f16", "f16", "f16", 2),
    ("m16n8k32", "f32", "f16", "f16", 2), ("m16n8k32", "f32", "bf16", "bf16", 2),
    ("m16n8k8", "f32", "tf32", "tf32", 4), ("m16n8k16", "f32", "tf32", "tf32", 2),
    *(("m16n8k64", "f32", a, b, 1) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
]  # fmt: skip
"""Shape, accumulator, A, B, and how many selectors there are."""

INTEGER_FORMS = [
    (shape, f"{'.satfinite' if sat else ''}.s32", f"{a}{bits}", f"{b}{bits}", selectors)
    for bits, shapes in (
        (8, (("m16n8k32", 2), ("m16n8k64", 1))),
        (4, (("m16n8k64", 2), ("m16n8k128", 1))),
    )
    for shape, selectors in shapes
    for a, b, sat in (("s", "s", 0), ("u", "s", 1), ("s", "u", 0), ("u", "u", 1), ("s", "s", 1))
]


def _vector(letter: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


def sparse(
    shape: str, acc: str, a: str, b: str, selector: int, *, variant: str = "sp", metadata: str = ""
) -> Probe:
    """One form; `metadata` "raw" gives it indices in any order, the same one twice too."""
    m, n, k = shape_of(shape)
    kind = acc.rpartition(".")[2]
    na, nb = m * k // 2 * WIDTH[a] // 1024, n * k * WIDTH[b] // 1024
    nc = m * n * WIDTH[kind] // 1024
    counts = [na, nb, nc, 1]
    first = [sum(counts[:i]) for i in range(4)]
    regs = ", ".join(_vector("a", first[i], counts[i]) for i in range(3))
    types = f"{acc.lstrip('.')}.{a}.{b}.{kind}"
    text = (
        f"mma.{variant}.sync.aligned.{shape}.row.col.{types} "
        f"{_vector('d', 0, nc)}, {regs}, %a{first[3]}, {selector};"
    )
    meta = metadata or ("singles" if a == "tf32" else "pairs")
    return Probe(text, (a,) * na + (b,) * nb + (kind,) * nc + (meta,), nc)


def probes() -> list[Probe]:
    """Every form with each of its selectors, with ordered metadata, and with any metadata."""
    out = []
    for shape, acc, a, b, selectors in FLOAT_FORMS + INTEGER_FORMS:
        out += [sparse(shape, acc, a, b, f) for f in range(selectors)]
        if a in ("f16", "tf32", "s8", "u4", "e4m3"):
            out.append(sparse(shape, acc, a, b, selectors - 1, variant="sp::ordered_metadata"))
        if a != "tf32":  # any other nibble than the two is undefined there
            out.append(sparse(shape, acc, a, b, 0, metadata="raw"))
    return out
