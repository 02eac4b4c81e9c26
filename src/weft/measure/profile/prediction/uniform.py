"""Finds registers that have the same value in all threads of a block.

Such a register is written once, from parameters, numbers of blocks and other such registers.
"""

from __future__ import annotations

import re
from collections import Counter

from weft.measure.profile.latency import registers
from weft.measure.profile.work import branches, reads_parameter
from weft.values.profile import Instruction, Profile

_OF_BLOCK = frozenset(("%ctaid", "%nctaid", "%ntid"))
_OF_ADDRESS = re.compile(r"\[([^\]]*)\]")
_REGISTER = re.compile(r"%[\w$]+")


def same_registers(p: Profile) -> frozenset[str]:
    """Registers that have the same value in all threads of a block."""
    found = [(registers(i.text), i) for i in p.instructions]
    times = Counter(name for (results, _), _ in found for name in results)
    same = set(_OF_BLOCK)
    for (results, operands), i in found:
        if _computes(i) and same.issuperset(operands):
            same.update(name for name in results if times[name] == 1)
    return frozenset(same)


def at_one_address(i: Instruction, same: frozenset[str]) -> bool:
    """True if all threads of a block access the same address."""
    found = _OF_ADDRESS.search(i.text)
    return found is not None and same.issuperset(_REGISTER.findall(found[1]))


def with_one_value(i: Instruction, same: frozenset[str]) -> bool:
    """True if all threads of a block add or store the same value."""
    return same.issuperset(_REGISTER.findall(i.text.rpartition("]")[2]))


def _computes(i: Instruction) -> bool:
    """True if the results depend on nothing but operands: no memory, no other lanes."""
    near = i.work[0] != "memory" or reads_parameter(i.opcode)
    return near and not i.accesses and i.work[0] != "sync" and not branches(i.opcode)
