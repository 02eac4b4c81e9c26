"""The call graph of a kernel: reachable functions, recursion, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from weft.errors import UnsupportedInstruction
from weft.ptx import isa
from weft.ptx.cfg import strong_components
from weft.ptx.isa.columns import Accepts, Control
from weft.ptx.model import CallSite, Instruction, Label, Param, PtxFunction, PtxModule, Sym
from weft.ptx.services import LANGUAGE, SERVICES
from weft.records import dataclass

INLINE_LIMIT = 500
"""The largest function, in instructions with all that it calls, that gets its own copy at each
call: values known at one call do not meet those of another.
"""

_TAKES_ADDRESS = isa.bases(lambda row: Accepts.FUNCTION in row.accepts)
"""Opcodes whose operand may be the name of a function."""


@dataclass(slots=True)
class CallGraph:
    """The functions that a kernel reaches.

    callees    the functions that each one calls, by a direct or a possible indirect call
    component  functions that call each other in a cycle have the same number
    recursive  the functions that may be entered while they are active
    sites      how many call sites reach each function
    weight     instructions of a function and of everything it calls
    """

    callees: dict[str, list[str]] = field(default_factory=dict)
    component: dict[str, int] = field(default_factory=dict)
    recursive: set[str] = field(default_factory=set)
    sites: dict[str, int] = field(default_factory=dict)
    weight: dict[str, int] = field(default_factory=dict)

    def copied(self, name: str) -> bool:
        """Return whether each call site gets a copy of its own."""
        if name in self.recursive:
            return False
        return self.sites[name] == 1 or self.weight[name] <= INLINE_LIMIT

    def needs_stack(self, name: str) -> bool:
        """Return whether a call of this function reaches one that has a frame on the stack."""
        seen, work = {name}, [name]
        while work:
            f = work.pop()
            if f in self.recursive:
                return True
            fresh = [g for g in self.callees[f] if g not in seen]
            seen.update(fresh)
            work += fresh
        return False


def function_ids(module: PtxModule) -> dict[str, int]:
    """The number that stands for the address of each function whose address is taken.

    The same for all kernels of a module, since they share its memory; 0 is the null pointer.
    """
    taken: set[str] = set()
    for f in module.functions.values():
        for item in f.body:
            if not isinstance(item, Label) and item.parts[0] in _TAKES_ADDRESS:
                source = item.operands[-1]
                if isinstance(source, Sym) and source.name in module.functions:
                    taken.add(source.name)
    for v in module.variables.values():
        taken.update(symbol for _, symbol, _, _ in v.relocations)
    names = [name for name in module.functions if name in taken]
    return {name: i for i, name in enumerate(names, 1)}


def targets(
    module: PtxModule, function: PtxFunction, call: CallSite, ids: dict[str, int]
) -> list[str]:
    """The functions a call may reach: one, or all candidates of an indirect call."""
    if isinstance(call.target, Sym):
        return [call.target.name]
    listed = function.call_targets.get(call.prototype or "")
    if listed is not None:
        # A function whose address is never taken cannot be in the register.
        return [name for name in listed if name in ids]
    # Candidates are compared by sizes alone: a prototype may spell .b32 where a function has .f32.
    wanted = _layout(*function.prototypes.get(call.prototype or "", ((), ())))
    known = [module.functions[name] for name in ids]
    return [
        f.name
        for f in known
        if not (f.is_entry or f.is_declaration) and _layout(f.returns, f.params) == wanted
    ]


def _layout(returns: Sequence[Param], params: Sequence[Param]) -> list[list[int]]:
    return [[p.size for p in returns], [p.size for p in params]]


def call_graph(module: PtxModule, entry: PtxFunction, ids: dict[str, int]) -> CallGraph:
    """Everything reachable from `entry`; refuses functions that nothing defines."""
    graph = CallGraph()
    work = [entry]
    while work:
        f = work.pop()
        if f.name in graph.callees:
            continue
        graph.callees[f.name] = []
        for item in f.body:
            if isinstance(item, Label) or isa.control_of(item.parts) is not Control.CALL:
                continue
            for name in targets(module, f, f.calls[item.index], ids):
                if name in SERVICES:
                    continue
                callee = module.functions.get(name)
                if callee is None or callee.is_declaration or callee.is_entry:
                    raise _undefined(name, item)
                graph.callees[f.name].append(name)
                graph.sites[name] = graph.sites.get(name, 0) + 1
                work.append(callee)
    _components(graph)
    for name in graph.callees:
        _weigh(module, graph, name)
    return graph


def _undefined(name: str, ins: Instruction) -> UnsupportedInstruction:
    launches = name.startswith(("cuda", "__cuda"))  # the device runtime, which no module defines
    return UnsupportedInstruction(
        f"call of {name}: "
        + (
            "this function of the device runtime is not simulated"
            if launches
            else "the function is declared, but not defined"
        ),
        where=f"{ins.loc} (PTX line {ins.ptx_line})" if ins.loc else f"PTX line {ins.ptx_line}",
        got=ins.text,
        allowed="functions of the same module, and " + " ".join(LANGUAGE),
        next="call it from the host" if launches else "put its definition into the same source",
    )


def _components(graph: CallGraph) -> None:
    """Number the strongly connected components; functions in cycles are recursive."""
    for number, members in enumerate(strong_components(graph.callees, graph.callees.__getitem__)):
        for name in members:
            graph.component[name] = number
            # A component of one function is a cycle only if the function calls itself.
            if len(members) > 1 or name in graph.callees[name]:
                graph.recursive.add(name)


def _weigh(module: PtxModule, graph: CallGraph, root: str) -> None:
    """Compute the weights bottom up; a shared function counts as its call only."""
    work = [root]
    while work:
        name = work[-1]
        if name in graph.weight:
            work.pop()
            continue
        inner = [g for g in graph.callees[name] if g not in graph.recursive]
        missing = [g for g in inner if g not in graph.weight]
        if missing:
            work += missing
            continue
        own = len(module.functions[name].body)
        # What is copied into its callers adds to their size; what is shared stays in one place.
        graph.weight[name] = own + sum(graph.weight[g] for g in inner if graph.copied(g))
        work.pop()
