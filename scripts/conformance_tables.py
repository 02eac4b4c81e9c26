"""The tables of docs/conformance.md, from the recording under tests/golden/conformance."""

from __future__ import annotations

import collections
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
if str(TESTS) not in sys.path:
    sys.path[:0] = [str(TESTS), str(TESTS / "support")]

from conformance import causes, golden  # noqa: E402

Finding = dict[str, Any]
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


def findings(kind: str) -> list[Finding]:
    found: list[Finding] = golden.read()["findings"].get(kind, [])
    return found


def ran(kind: str) -> list[Finding]:
    return [x for x in findings(kind) if "differing" in x]


def summary(table: Table) -> str:
    """One line a kind."""
    m = golden.read()["machine"]
    forms, functions, tiles = ran("forms"), ran("functions"), ran("tiles")
    programs, kernels = ran("programs"), ran("kernels")
    body = [
        ("full opcodes, 131,072 operand tuples each", f"{len(forms):,}",
         _results(forms, "operands"), _wrong(forms)),
        ("approximate functions, all 2³² inputs", len({x["name"] for x in functions}),
         _results(functions, "operands"), _wrong(functions)),
        ("tensor-core opcodes, tiles of twelve distributions", len(tiles), _results(tiles, "tiles"),
         _wrong(tiles)),
        ("random programs", f"{len(programs):,}", "all registers and memory", _wrong(programs)),
        ("launches of whole kernels", f"{len(kernels):,}", _results(kernels, "values"),
         _wrong(kernels)),
    ]  # fmt: skip
    return (
        f"One {m['gpu']} (driver {m['driver']}, ptxas {m['ptxas']}) and the simulated H200 run the "
        "same PTX; the results are compared bit by bit:\n\n"
        + table(("what", "number#", "results compared#", "different#"), body)
        + f"\n\n{_explained(programs + kernels)}"
    )


def _explained(found: Sequence[Finding]) -> str:
    """A sentence on the number of differences with a known cause."""
    wrong = [x for x in found if x["differing"]]
    kinds = ["kernels" if "where" in x else "programs" for x in wrong]
    unknown = sum(
        causes.cause(kind, x) == causes.UNKNOWN for kind, x in zip(kinds, wrong, strict=True)
    )
    return (
        f"Of the {len(wrong)} programs and launches that differ, {len(wrong) - unknown} have a "
        "known cause: arithmetic and bugs of the assembler, or the order of atomics. "
        f"{sum(x.get('shown', False) for x in wrong)} programs were rewritten as ptxas understood "
        "them; on the simulator they then give the results of the GPU, bit for bit."
    )


def _results(found: Sequence[Finding], key: str) -> str:
    return f"{sum(x[key] for x in found):,}"


def _wrong(found: Sequence[Finding]) -> str:
    return f"{sum(bool(x['differing']) for x in found):,}"


def by_opcode(table: Table) -> str:
    """One line an opcode: its forms, how they came out, and each form in a fold."""
    groups = collections.defaultdict(list)
    for x in findings("forms"):
        groups[x["name"].split(".")[0].split(" ")[0]].append(x)
    body, folds = list[Sequence[object]](), list[str]()
    for base in sorted(groups):
        found = [x for x in groups[base] if "differing" in x]
        wrong = [x for x in found if x["differing"]]
        refused = sum("refused" in x for x in groups[base])
        missing = [x for x in groups[base] if "simulator" in x]
        verdict = "exact" if not wrong else f"{len(found) - len(wrong)} exact, {len(wrong)} differ"
        verdict += f", {len(missing)} not covered" if missing else ""
        operands = f"{sum(x['operands'] for x in found):,}"
        body.append((f"`{base}`", len(found), operands, verdict, refused or ""))
        folds.append(_fold(base, found))
    header = ("opcode", "forms#", "operand tuples#", "result", "refused by ptxas#")
    return "\n\n".join([table(header, body), *folds])


def _fold(base: str, found: Sequence[Finding]) -> str:
    """Every form of an opcode, folded away; those that are exact share their figures."""
    exact = sorted(x["name"] for x in found if not x["differing"])
    lines = [f"<details><summary><code>{base}</code>: {len(found)} forms</summary>", ""]
    lines += [
        f"Exact on 131,072 operand tuples each: {', '.join(f'`{n}`' for n in exact)}."
    ] * bool(exact)
    for x in found:
        if x["differing"]:
            size = "" if x.get("ulp") is None else f", at most {x['ulp']:,} ulp"
            lines += ["", f"`{x['name']}`: {x['differing']:,} of {x['operands']:,} differ{size}."]
    return "\n".join([*lines, "", "</details>"])


def by_function(table: Table) -> str:
    """The approximate functions."""
    groups = collections.defaultdict(list)
    for x in ran("functions"):
        groups[x["name"]].append(x)
    body = [
        (f"`{name}`", _results(found, "operands"), "exact" if not int(_wrong(found)) else "differs")
        for name, found in sorted(groups.items())
    ]
    return table(("function", "inputs#", "result"), body)


def by_tile(table: Table) -> str:
    """Tensor-core opcodes by their types and shape; layouts together."""
    groups = collections.defaultdict(list)
    for x in ran("tiles"):
        words = [w for w in x["name"].split(".") if w not in ("sync", "aligned", "row", "col")]
        groups[".".join(words)].append(x)
    body = []
    for name, found in sorted(groups.items()):
        wrong = [x for x in found if x["differing"]]
        verdict = "exact" if not wrong else f"differs: {', '.join(wrong[0]['where'])}"
        body.append((f"`{name}`", len(found), _results(found, "tiles"), verdict))
    return table(("opcode", "layouts#", "tiles#", "result"), body)


def by_program(table: Table) -> str:
    """Random programs by kind."""
    groups = collections.defaultdict(list)
    for x in findings("programs"):
        groups[x["name"].split()[0]].append(x)
    body = []
    for kind, found in groups.items():
        done = [x for x in found if "differing" in x]
        body.append((causes.PROGRAMS[kind], f"{len(done):,}", _wrong(done),
                     sum("refused" in x for x in found)))  # fmt: skip
    return table(("programs", "ran#", "differ#", "refused by ptxas#"), body)


def by_kernel(table: Table) -> str:
    """Whole kernels by where they are from."""
    groups = collections.defaultdict(list)
    for x in ran("kernels"):
        groups[x["where"]].append(x)
    body = [
        (f"`{where}`", len({x["name"] for x in found}), len(found), _results(found, "values"),
         _wrong(found))
        for where, found in sorted(groups.items())
    ]  # fmt: skip
    return table(("from", "kernels#", "launches#", "values compared#", "different#"), body)


def differences(table: Table) -> str:
    """Whatever differs, with its cause."""
    counted, shown = (collections.Counter[tuple[str, str]]() for _ in range(2))
    for kind in ("forms", "functions", "tiles", "programs", "kernels"):
        for x in findings(kind):
            if x.get("differing") or "simulator" in x or "skipped" in x:
                counted[kind, causes.cause(kind, x)] += 1
                shown[kind, causes.cause(kind, x)] += x.get("shown", False)
    body = [
        (kind, number, shown[kind, why] or "", why)
        for (kind, why), number in sorted(counted.items())
    ]
    return table(("what", "number#", "shown#", "cause"), body) if body else "Nothing differs."


def refusals(table: Table) -> str:
    """Programs that ptxas does not take, by what it says without its numbers."""
    counted = collections.Counter(
        re.sub(r"'?\d+'?", "N", x["refused"]) for x in findings("programs") if "refused" in x
    )
    body = [(number, said) for said, number in counted.most_common()]
    return table(("programs#", "message of ptxas"), body)


def left_out(table: Table) -> str:
    """Rows without a form of their own."""
    reasons = collections.defaultdict(list)
    for syntax, reason in golden.read().get("left_out", {}).items():
        reasons[reason].append(f"`{syntax.split('  ')[0]}`")
    body = [(why, ", ".join(rows)) for why, rows in sorted(reasons.items())]
    return table(("why", "rows"), body)


TABLES: dict[str, Callable[[Table], str]] = {
    "conformance": summary,
    "conformance_opcodes": by_opcode,
    "conformance_refusals": refusals,
    "conformance_functions": by_function,
    "conformance_tiles": by_tile,
    "conformance_programs": by_program,
    "conformance_kernels": by_kernel,
    "conformance_differences": differences,
    "conformance_left_out": left_out,
}
