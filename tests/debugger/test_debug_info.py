"""Debug information of NVRTC's PTX: scopes, variables, types and places."""

from __future__ import annotations

import weft
from weft.ptx.debug_info import DebugInfo, Kind, read

SOURCE = """\
struct Inner { short a; unsigned char b[3]; };
struct Node { float x; Inner inner; Node* next; };
enum Color { RED, GREEN };
__device__ int counter;
__device__ int recount(Node node, const double& d) {
    bool big = d > 2.0;
    return big ? node.inner.b[1] : counter;
}
__global__ void k(Node* nodes, unsigned long long n, Color color) {
    Node mine = nodes[threadIdx.x];
    int table[2][3];
    for (int i = 0; i < 6; ++i) {
        table[i / 3][i % 3] = i + (int)color;
    }
    nodes[threadIdx.x].x = recount(mine, mine.x) + table[threadIdx.x & 1][n % 3];
}
"""


def test_variables_have_names_types_and_places() -> None:
    text = weft.cuda(SOURCE, options=["-G"]).ptx.text
    info = read(text)
    k, recount = (next(f for f in info.functions.values() if f.name == n) for n in ("k", "recount"))
    nodes, n, color = k.variables
    assert [v.name for v in k.variables] == ["nodes", "n", "color"]
    assert all(v.is_parameter for v in k.variables)
    node = nodes.type.of
    assert node is not None and (node.name, node.kind) == ("Node", Kind.STRUCT)
    assert [(f.name, f.offset, f.type.kind) for f in node.fields] == [
        ("x", 0, Kind.FLOAT),
        ("inner", 4, Kind.STRUCT),
        ("next", 16, Kind.POINTER),
    ]
    inner = node.fields[1].type
    assert (inner.size, inner.fields[1].type.count, inner.fields[1].type.name) == (
        6,
        3,
        "unsigned char[3]",
    )
    assert (n.type.size, n.type.signed, color.type.kind) == (8, False, Kind.INTEGER)
    assert n.locations[0].register.startswith("%rd")
    block = k.inner[0]
    mine, table = (next(v for v in block.variables if v.name == x) for x in ("mine", "table"))
    assert mine.locations[0].symbol.startswith("__local_depot")
    assert (table.type.count, table.type.of and table.type.of.count) == (2, 3)
    assert [v.name for v in block.inner[0].variables] == ["i"]
    assert recount.variables[1].type.reference
    assert info.types["Inner"].size == 6
    assert [v.name for v in info.variables] == ["counter"]


def test_a_line_belongs_to_one_function() -> None:
    text = weft.cuda(SOURCE, options=["-G"]).ptx.text
    info = read(text)
    lines = text.splitlines()
    inside = next(i for i, x in enumerate(lines, 1) if "recount" in x and "call" not in x)
    at = next(i for i in range(inside, len(lines)) if "setp" in lines[i - 1])
    found = info.function_at(at)
    assert found is not None and found.name == "recount"
    assert info.function_at(1) is None


def test_code_without_debug_information() -> None:
    assert read(weft.cuda(SOURCE).ptx.text) == DebugInfo()
