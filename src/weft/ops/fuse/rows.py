"""The CUDA C++ of a group with reductions: G threads compute a row of n elements.

A reduction needs all elements of its row, so the kernel passes over the row once for each chain of
reductions, and once more for results. The row stays in registers between the passes if it fits, and
so do values that take long to compute again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from torch.fx import Node

from weft.ops.fuse import model, table
from weft.ops.fuse.code import FusedOperand, Names, fetched, statements
from weft.ops.fuse.group import FusionGroup, argument, dtype_of, inputs_of, is_number, is_reduction
from weft.ops.fuse.masks import is_mask

REGISTERS, STREAMED, PER_ROW = "registers", "streamed", "per row"
"""Access modes of an operand: stays in registers, is loaded in each pass, one element per row."""


class _Sum(NamedTuple):
    """An accumulator of a pass: `name` joins `value` of every element, `result` is `final`.

    operation  of cuda/operations.cuh
    """

    node: Node
    ctype: str
    name: str
    operation: str
    value: str
    result: str
    final: str


def _correction(node: Node) -> float:
    """The number subtracted from n in a variance; 1 unless given."""
    given = argument(node, 2, "correction", 1)
    return 1 if given is None else float(given)


class _Writer:
    """The text of one kernel.

    stage   the passes that must be over before a value is known
    passes  the values that each pass over the elements computes; the last one computes results
    keeps   the values that each pass leaves in registers for later ones
    """

    def __init__(self, group: FusionGroup, modes: Sequence[str], vector: int, vectors: int) -> None:
        self.group, self.vector, self.vectors = group, vector, vectors
        self.names = Names(group)
        self.mode = {o.node: m for o, m in zip(self.names.inputs, modes, strict=True)}
        self.per_row: set[Node] = {n for n, m in self.mode.items() if m == PER_ROW}
        self.stage: dict[Node, int] = {}
        for node in group.nodes:
            self.stage[node] = self._stage(node)
            inputs = [n for n in inputs_of(node) if not is_number(n)]
            if is_reduction(node) or all(n in self.per_row for n in inputs):
                self.per_row.add(node)

        self.outputs = [
            o for o in self.names.outputs if group.full(o.node) and o.node not in self.per_row
        ]
        self.passes = [
            [inputs_of(s.node)[0] for s in self._sums_of(stage)]
            for stage in range(max(self.stage.values()))
        ]
        self.passes.append([o.node for o in self.outputs])
        self.keeps = self._saved() if vectors else [[] for _ in self.passes]

    def _saved(self) -> list[list[Node]]:
        """The values that each pass saves for later ones, instead of their computing them again."""
        found, available = [], set[Node]()
        for number, targets in enumerate(self.passes):
            here = [n for n in self._cone(targets, available) if n not in available]
            rest = [(t, set(self._cone(t, available))) for t in self.passes[number + 1 :]]
            slow = _slow(here)
            keep = [
                n
                for n in here
                if n in slow
                and any(
                    n in later and (n in t or any(u in later and u not in here for u in n.users))
                    for t, later in rest
                )
            ]
            if (len(available) + len(keep)) * self.vectors * self.vector > model.SAVED_VALUES:
                keep = []
            available.update(keep)
            found.append(keep)
        return found

    def _stage(self, node: Node) -> int:
        known = max((self.stage.get(n, 0) for n in inputs_of(node)), default=0)
        name = table.name_of(node.target)
        return known + (2 if name in table.VARIANCES else 1 if name in table.REDUCTIONS else 0)

    # ---- the kernel ----------------------------------------------------------------------------
    def text(self) -> str:
        steps = "".join(f", long long {o.pointer}_row" for o in self.names.inputs)
        size = "G <= 32 ? 128 : G"
        lines = [
            *self.names.includes,
            "",
            "template <int G, bool EXACT>  // EXACT: G threads hold the row to its last element",
            f"__global__ void __launch_bounds__({size})",
            f"fused({self.names.parameters}, int rows, int n{steps}) {{",
            "    take_turn();",
            "    constexpr int BESIDE = (G <= 32 ? 128 : G) / G;  // rows of a block",
            "    const int lane = threadIdx.x % G;",
            "    const long long number = (long long)blockIdx.x * BESIDE + threadIdx.x / G;",
            "    const bool there = number < rows;",
            "    const long long row = there ? number : 0;  // all threads take part in reductions",
        ]
        lines += self.names.made_masks()
        for o in self.names.inputs:
            lines.append(
                f"    const {o.ctype}* from_{o.pointer} = {o.pointer} + row * {o.pointer}_row;"
            )
        alone = [o for o in self.names.inputs if self.mode[o.node] == PER_ROW]
        lines += fetched(alone, self.names, "    ", [f"*from_{o.pointer}" for o in alone])
        if self.vectors:
            lines += self._load_registers()
        lines += self._rows_of_stage(0)
        for stage in range(max(self.stage.values())):
            lines += self._pass(stage)
            lines += self._rows_of_stage(stage + 1)
        return "\n".join([*lines, *self._results(), "}", ""])

    def _load_registers(self) -> list[str]:
        lines = []
        staying = [o for o in self.names.inputs if self.mode[o.node] == REGISTERS]
        for o in staying:
            lines.append(f"    Vector<{o.ctype}, {self.vector}> regs_{o.pointer}[{self.vectors}];")
        lines += [
            "#pragma unroll",
            f"    for (int j = 0; j < {self.vectors}; j++) {{",
            f"        const int at = (j * G + lane) * {self.vector};",
            "        if (EXACT || at < n) {",
        ]
        for o in staying:
            lines.append(
                f"            regs_{o.pointer}[j] = load<{self.vector}>(from_{o.pointer} + at);"
            )
        return [*lines, "        }", "    }"]

    def _rows_of_stage(self, stage: int) -> list[str]:
        """Values of the whole row that are known after so many passes."""
        nodes = [
            n
            for n in self.group.nodes
            if n in self.per_row and self.stage[n] == stage and not is_reduction(n)
        ]
        return list(statements(nodes, self.names, "    "))

    # ---- passes --------------------------------------------------------------------------------
    def _sums_of(self, stage: int) -> list[_Sum]:
        return [s for n in self.group.nodes if is_reduction(n) for s in self._sums(n, stage)]

    def _pass(self, stage: int) -> list[str]:
        sums = self._sums_of(stage)
        body = [f"{s.name} = {s.operation}::join({s.name}, {s.value});" for s in sums]
        lines = [f"    {s.ctype} {s.name} = {s.operation}::none();" for s in sums]
        lines += self._loop(stage, body)
        for s in sums:
            start, join = f"{s.operation}::none()", f"{s.operation}::join"
            lines.append(f"    {s.name} = block_reduce<G>({s.name}, {start}, {join});")
            lines.append(f"    const {s.ctype} {s.result} = {s.final};")
        return lines

    def _sums(self, node: Node, stage: int) -> list[_Sum]:
        """The expression that a reduction adds up in a pass, if any."""
        name, c = table.name_of(node.target), table.compute_type(dtype_of(node))
        operand = inputs_of(node)[0]
        value, mine = self.names.of[operand], self.names.of[node]
        value = value if table.compute_type(dtype_of(operand)) == c else f"to<{c}>({value})"
        turn, total, mean = stage - self.stage.get(operand, 0), f"sum_{mine}", f"mean_{mine}"
        if name in table.VARIANCES:
            if turn == 0:
                return [_Sum(node, c, total, f"Sum<{c}>", value, mean, f"{total} / n")]
            if turn == 1:
                square = f"({value} - {mean}) * ({value} - {mean})"
                left = f"maximum<{c}>({c}(n) - {table.literal(_correction(node), c)}, {c}(0))"
                total = f"squares_{mine}"
                return [_Sum(node, c, total, f"Sum<{c}>", square, mine, f"{total} / {left}")]
        elif turn == 0:
            final = f"{total} / n" if name == "mean" else total
            return [_Sum(node, c, total, f"{table.REDUCTIONS[name]}<{c}>", value, mine, final)]
        return []

    def _results(self) -> list[str]:
        full = self.outputs
        single = [o for o in self.names.outputs if o not in full]
        lines = []
        if full:
            before = [f"Vector<{o.ctype}, {self.vector}> out_{o.pointer};" for o in full]
            body = [f"out_{o.pointer}[k] = to<{o.ctype}>({self.names.of[o.node]});" for o in full]
            lines += self._loop(len(self.passes) - 1, body, full, before)
        if single:
            lines += ["    if (there && lane == 0) {"]
            lines += [
                f"        {o.pointer}[row] = to<{o.ctype}>({self.names.of[o.node]});"
                for o in single
            ]
            lines += ["    }"]
        return lines

    def _loop(
        self,
        number: int,
        body: Sequence[str],
        stores: Sequence[FusedOperand] = (),
        before: Sequence[str] = (),
    ) -> list[str]:
        """A pass over the elements of the row, which computes its values and then does `body`."""
        there = {n for keep in self.keeps[:number] for n in keep}
        cone, keep = self._cone(self.passes[number], there), self.keeps[number]
        nodes, ready = [n for n in cone if n not in there], [n for n in cone if n in there]
        used = {i for n in nodes for i in inputs_of(n)} | set(self.passes[number])
        operands = [o for o in self.names.inputs if o.node in used and self.mode[o.node] != PER_ROW]
        v = self.vector
        lines = [
            f"    {table.compute_type(dtype_of(n))} saved_{self.names.of[n]}[{self.vectors}][{v}];"
            for n in keep
        ]
        if self.vectors:
            lines += [
                "#pragma unroll",
                f"    for (int j = 0; j < {self.vectors}; j++) {{",
                f"        const int at = (j * G + lane) * {v};",
                "        if (!EXACT && at >= n) break;",
            ]
        else:
            lines = [f"    for (int at = lane * {v}; at < n; at += G * {v}) {{"]
        places = []
        for o in operands:
            if self.vectors and self.mode[o.node] == REGISTERS:
                places.append(f"regs_{o.pointer}[j][k]")
                continue
            lines.append(f"        const auto in_{o.pointer} = load<{v}>(from_{o.pointer} + at);")
            places.append(f"in_{o.pointer}[k]")
        masks = [o for o in self.names.masks if any(o.node in inputs_of(n) for n in nodes)]
        for o in masks:
            whole = str(v % 4 == 0).lower()
            made = f"{o.pointer}.some<{v}, {whole}>(row * n + at)"
            lines.append(f"        const auto in_{o.pointer} = {made};")
        lines += [f"        {line}" for line in before]
        lines += ["#pragma unroll", f"        for (int k = 0; k < {v}; k++) {{"]
        lines += fetched(operands, self.names, " " * 12, places)
        lines += fetched(masks, self.names, " " * 12, [f"in_{o.pointer}[k]" for o in masks])
        lines += [
            f"            const {table.compute_type(dtype_of(n))} {self.names.of[n]} = "
            f"saved_{self.names.of[n]}[j][k];"
            for n in ready
        ]
        lines += statements(nodes, self.names, " " * 12)
        lines += [f"            saved_{self.names.of[n]}[j][k] = {self.names.of[n]};" for n in keep]
        lines += [f"            {line}" for line in body]
        lines += ["        }"]
        for o in stores:
            lines.append(
                f"        if (there) store_whole({o.pointer} + row * n + at, out_{o.pointer});"
            )
        return [*lines, "    }"]

    def _cone(self, targets: Iterable[Node], there: Container[Node]) -> list[Node]:
        """The elements that some values are computed from, as far as they are not `there`."""
        found = set(targets)
        for node in reversed(self.group.nodes):
            if node in found and node not in self.per_row and node not in there:
                found.update(inputs_of(node))
        return [n for n in self.group.nodes if n in found and n not in self.per_row]


def _slow(nodes: Sequence[Node]) -> set[Node]:
    """The values that take long to compute, of these in order."""
    found: set[Node] = set()
    for node in nodes:
        inputs = inputs_of(node)
        name = table.name_of(node.target)
        if name in table.SLOW or any(is_mask(n) or n in found for n in inputs):
            found.add(node)
    return found


def rows(group: FusionGroup, modes: Sequence[str], vector: int, vectors: int) -> str:
    """A kernel template `fused<G, EXACT>`; `vectors` of a thread stay in registers, 0: none."""
    return _Writer(group, modes, vector, vectors).text()
