"""Texture and surface instructions: a call of the texture unit for all lanes of a warp.

    int32 unit(const int32 request[8], int32 lanes, int64 values[rows][32])

The unit is in the runtime library of whole programs (`shim/textures`), where texture objects are
made; `ContextFields.TEXTURES` has its address. Row 0 of the values are the handles, the rows after
it the coordinates, the level or the gradients, and what is stored. Results replace the first rows.
The unit returns 0, or 1 + the first lane whose access is invalid.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.device.sim.lane_sets import lane_table
from weft.device.sim.layout import ContextFields, Fault, WorkerFields
from weft.device.sim.memory.accessing import Accessing
from weft.errors import PtxError
from weft.ir import Builder, Val
from weft.ptx.isa import llvm_type
from weft.ptx.model import Instruction, Mem, Operand, Pair

ROWS = 16
"""The maximum number of rows: a gradient of a cube map in an array has 1 + 4 + 3 + 3."""

# The numbers of these words are their places; `shim/textures/request.h` is their twin.
OPERATIONS = ("fetch", "ask", "load", "store", "reduce")
GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube")
TYPES = ("f32", "s32", "u32", "b8", "b16", "b32", "b64", "s64", "u64")
FUNCTIONS = ("plain", "level", "gradient", "gather_r", "gather_g", "gather_b", "gather_a")
OUTSIDE = ("trap", "clamp", "zero")
QUERIES = ("width", "height", "depth", "array_size", "num_mipmap_levels", "normalized_coords")
COORDINATES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 2, "a2d": 3, "cube": 3, "acube": 4}
"""Coordinates of a geometry, the layer included; PTX pads vectors of three to four."""
GRADIENTS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class Textures:
    """`tex`, `suld` and the like of a warp under emission."""

    def __init__(self, e: Accessing) -> None:
        self.e = e
        self._values: Val | None = None

    # ---- what rows ask for ------------------------------------------------------------------
    def fetch(
        self, ins: Instruction, function: str, geometry: str, ptx_type: str, coordinates: str
    ) -> None:
        dest, handle, place, *more = ins.operands
        sources = self._elements(place, coordinates, COORDINATES[geometry])
        if function == "level":
            sources += self._elements(more[0], coordinates, 1)
        for gradient in more if function == "gradient" else ():
            sources += self._elements(gradient, "f32", GRADIENTS[geometry])
        request = (
            OPERATIONS.index("fetch"), GEOMETRIES.index(geometry), TYPES.index(ptx_type),
            FUNCTIONS.index(function), coordinates == "f32",
        )  # fmt: skip
        values = self._run(request, handle, sources)
        results, resident = (dest.first, dest.second) if isinstance(dest, Pair) else (dest, None)
        self.e.write_vector(results, self._results(values, ptx_type, 4))
        if resident is not None:  # all of a texture is in memory
            self.e.write(resident, self.e.b.integer("i1", 1))

    def query(self, ins: Instruction, query: str) -> None:
        dest, handle = ins.operands
        values = self._run((OPERATIONS.index("ask"), 0, 0, QUERIES.index(query)), handle, [])
        self.e.write_vector(dest, self._results(values, "b32", 1))

    def load(
        self, ins: Instruction, geometry: str, ptx_type: str, count: int, outside: str
    ) -> None:
        dest, handle, place = ins.operands
        values = self._access("load", geometry, ptx_type, outside, count, handle, place, [])
        self.e.write_vector(dest, self._results(values, ptx_type, count))

    def store(
        self, ins: Instruction, geometry: str, ptx_type: str, count: int, outside: str
    ) -> None:
        handle, place, source = ins.operands
        data = self._elements(source, ptx_type, count, exact=True)
        self._access("store", geometry, ptx_type, outside, count, handle, place, data)

    def reduce(
        self, ins: Instruction, which: int, geometry: str, ptx_type: str, outside: str
    ) -> None:
        handle, place, source = ins.operands
        data = self._elements(source, ptx_type, 1, exact=True)
        self._access("reduce", geometry, ptx_type, outside, which, handle, place, data)

    # ---- the call ---------------------------------------------------------------------------
    def _access(
        self, operation: str, geometry: str, ptx_type: str, outside: str, count: int,
        handle: Operand, place: Operand, data: Sequence[Val],
    ) -> Val:  # fmt: skip
        """An access to a surface; `count` elements, or the number of a reduction."""
        request = (
            OPERATIONS.index(operation), GEOMETRIES.index(geometry), TYPES.index(ptx_type), count,
            OUTSIDE.index(outside),
        )  # fmt: skip
        coordinates = self._elements(place, "s32", COORDINATES[geometry])
        return self._run(request, handle, [*coordinates, *data])

    def _elements(
        self, operand: Operand, ptx_type: str, count: int, *, exact: bool = False
    ) -> list[Val]:
        values = self.e.read_vector(operand, ptx_type)
        if len(values) < count or (exact and len(values) > count):
            raise ValueError(f"{len(values)} elements, {count} are needed")
        return values[:count]

    def _run(self, request: Sequence[int], handle: Operand, sources: Sequence[Val]) -> Val:
        """The values after the call."""
        e, b = self.e, self.e.b
        if self._values is None:
            self._values = b.array("i64", 32 * ROWS)
        values = self._values
        assert isinstance(handle, Mem)
        if handle.offset:
            raise PtxError("the handle of a texture or surface object takes no offset")
        for i, source in enumerate([e.read_lanes(handle.base, "u64"), *sources]):
            b.store(b.resize(b.bits(source), "i64"), b.at(values, 256 * i), 8)
        table = lane_table(b, "i32", (*map(int, request), *[0] * (8 - len(request))))
        lanes = e.executing()
        site = b.integer("i64", e.ins.index)
        call_unit = b.helper("texture_unit", [_P, _P, _P, _I32, _P, _I64], ("i1", 0), _call_unit)
        e.abort_unless(call_unit(e.context, e.worker, table, lanes, values, site))
        e.forget_mask()
        return values

    def _results(self, values: Val, ptx_type: str, count: int) -> list[Val]:
        b, ty = self.e.b, llvm_type(ptx_type)
        rows = [b.load("i64", 32, b.at(values, 256 * i), 8) for i in range(count)]
        width = {"float": "i32"}.get(ty, ty)
        return [b.reinterpret(b.resize(row, width), ty) for row in rows]


def _call_unit(b: Builder, args: list[Val]) -> Val:
    """Call the unit unless no lane runs; record the error that it reports."""
    context, worker, request, lanes, values, site = args
    with b.when(lanes.eq(0), rare=True):
        b.ret(b.integer("i1", 1))
    address = b.load("i64", 0, b.at(context, ContextFields.TEXTURES))
    status = b.either(
        address.ne(0),
        lambda: _called(b, address, request, lanes, values),
        lambda: b.integer("i32", 1),
        likely=True,
    )
    fine = status.eq(0)
    with b.when(fine ^ 1, rare=True):
        fields = {
            WorkerFields.ERROR: b.integer("i64", Fault.TEXTURE),
            WorkerFields.ERROR_LANE: (status - 1).zext("i64"),
            WorkerFields.ERROR_SITE: site,
        }
        for at, v in fields.items():
            b.store(v, b.at(worker, at))
    return fine


def _called(b: Builder, address: Val, request: Val, lanes: Val, values: Val) -> Val:
    unit = b.val("ptr", 0, f"inttoptr {address.typed} to ptr")
    arguments = ", ".join(a.typed for a in (request, lanes, values))
    return b.val("i32", 0, f"call i32 {unit.ref}({arguments})")
