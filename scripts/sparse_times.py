"""Tables of recorded times of products with sparse matrices, and of attention on one rank."""

from __future__ import annotations

from collections.abc import Callable

from quantised_times import read, rounded

Table = Callable[..., str]
CONTENDERS = {
    "weft": "weft, sparse",
    "torch sparse": "PyTorch, sparse",
    "weft dense": "weft, dense",
    "torch dense": "PyTorch, dense",
}


def semi_structured(table: Table) -> str:
    """Microseconds of layers with a 2:4 sparse weight."""
    rows = [r for r in read("sparse") if r["call"].startswith("2:4 ")]
    body = []
    for row in rows:
        size, us = row["call"].split()[1].replace("x", " x "), row["us"]
        ratios = (f"{us[peer] / us['weft']:.2f}" for peer in ("weft dense", "torch sparse"))
        body.append((size, *(rounded(us[name]) for name in CONTENDERS), *ratios))
    names = (f"{name}#" for name in CONTENDERS.values())
    last = ("dense / sparse#", "cuSPARSELt / weft#")
    return table(("rows x features x K", *names, *last), body)


def densities(table: Table) -> str:
    """Microseconds of block-sparse and CSR matrices of 4096 x 4096 by their density."""
    body = []
    for row in read("sparse"):
        kind, *words = row["call"].split()
        if kind == "2:4":
            continue
        size = f"blocks of {words.pop(0)}" if kind == "blocks" else "CSR"
        density, shape, dtype = words
        columns = shape.rsplit("x", 1)[1]
        cells = (rounded(row["us"][name]) for name in CONTENDERS)
        body.append((size, dtype, columns, float(density), *cells))
    order = sorted(body, key=lambda row: (row[0], row[1], int(row[2]), -row[3]))
    text = [(*row[:3], f"{row[3]:g}", *row[4:]) for row in order]
    names = (f"{name}#" for name in CONTENDERS.values())
    return table(("matrix", "dtype", "columns#", "density#", *names), text)


def one_rank(table: Table) -> str:
    """Microseconds of a ring of one rank beside plain attention, and of the merge beside a copy."""
    body = []
    for row in read("ring"):
        us = row.get("us", {})
        for own, other in (("ring", "attention"), ("merge", "copy")):
            if own in us:
                cells = (rounded(us[own]), rounded(us[other]), f"{us[own] / us[other]:.3f}")
                body.append((row["name"], *cells))
    return table(("call", "weft.distributed#", "attention, or a copy#", "ratio#"), body)


TABLES: dict[str, Callable[[Table], str]] = {
    "sparse_layers": semi_structured,
    "sparse_densities": densities,
    "ring_times": one_rank,
}
