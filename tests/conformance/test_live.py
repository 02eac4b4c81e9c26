"""A part of the conformance suite on the GPU of this machine, which `judge.py` runs whole."""

from __future__ import annotations

from typing import Any

import pytest

from conformance import catalogue, functions, golden, mixes, tasks, tiles
from conformance.assemble import find_ptxas

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_ptxas() is None, reason="ptxas of a CUDA toolkit is needed"),
]
FORMS = [form.name for form in catalogue.forms()][::97]
TILES = [opcode for opcode in tiles.opcodes() if "m16n8k16" in opcode][::6]
PROGRAMS = [f"{kind} live {i}" for kind in mixes.KINDS if kind != "chain" for i in range(6)]


def exact(found: list[dict[str, Any]]) -> int:
    """The number of programs that ran on both devices; all must have left the same bits."""
    assert not [x for x in found if x.get("differing") or "simulator" in x]
    return sum("differing" in x for x in found)


def test_forms() -> None:
    assert exact(tasks.run_forms(FORMS)) > len(FORMS) // 3


def test_functions() -> None:
    opcode = next(functions.opcodes())
    assert exact(tasks.run_functions([(opcode, 3)])) == 1


def test_tiles() -> None:
    assert exact(tasks.run_tiles(TILES)) > len(TILES) // 2


def test_programs() -> None:
    opcodes = golden.opcodes(golden.read()["findings"]["forms"])
    assert exact(tasks.run_programs((opcodes, PROGRAMS))) > len(PROGRAMS) // 2
