"""The PTX parser: rows of text and what must come of them, or how they must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft.errors import PtxError
from weft.ptx.model import (
    CallSite,
    FloatImm,
    Imm,
    Instruction,
    Label,
    Mem,
    Not,
    Operand,
    Pair,
    PtxFunction,
    Reg,
    Sink,
    Special,
    Sym,
    Vec,
)
from weft.ptx.parse import parse
from weft.values import SourceLine

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = (
    ".reg .pred p, q, %p<4>; .reg .b32 a, %r<10>; .reg .b64 %rd<5>;\n"
    ".reg .f32 %f<9>; .reg .v4 .f32 %v; .shared .b32 tile[64];\n"
)


def in_body(code: str) -> str:
    return f"{HEAD}.visible .entry k(.param .u64 out)\n{{\n{REGISTERS}{code}\n}}\n"


def kernel(code: str) -> PtxFunction:
    return parse(in_body(code)).functions["k"]


def instructions(function: PtxFunction) -> list[Instruction]:
    return [item for item in function.body if isinstance(item, Instruction)]


R1, R2, P1 = Reg("%r1"), Reg("%r2"), Reg("%p1")

OPERANDS: dict[str, tuple[Operand, ...]] = {
    "add.s32 %r1, %r2, 5;": (R1, R2, Imm(5)),
    "add.s32 %r1,%r2,-0x10;": (R1, R2, Imm(-16)),
    "and.b32 %r1, %r2, 0xFFU;": (R1, R2, Imm(255)),
    "and.b32 %r1, 017, 0b101;": (R1, Imm(15), Imm(5)),
    "mov.u64 %rd1, 18446744073709551615;": (Reg("%rd1"), Imm(2**64 - 1)),
    "mov.u32 %r1, (1<<4)|2;": (R1, Imm(18)),
    "mov.u32 %r1, -(-4);": (R1, Imm(4)),
    "mov.u32 %r1, -7 / 2 * 10 + 7 % 4;": (R1, Imm(-27)),
    "mov.u32 %r1, ~0 & (2 + 3 == 5);": (R1, Imm(1)),
    "mov.u32 %r1, WARP_SZ;": (R1, Imm(32)),
    "mov.u32 %r1, WARP_SZ - 1;": (R1, Imm(31)),
    "mov.f32 %f1, 0f3F800000;": (Reg("%f1"), FloatImm(0x3F800000, 32)),
    "mov.f32 %f1, -0f3F800000;": (Reg("%f1"), FloatImm(0xBF800000, 32)),
    "mov.f64 %rd1, 0d3FF0000000000000;": (Reg("%rd1"), FloatImm(0x3FF0000000000000, 64)),
    "mov.f32 %f1, 1.5;": (Reg("%f1"), FloatImm(0x3FF8000000000000, 64)),
    "mov.f32 %f1, -2e0;": (Reg("%f1"), FloatImm(0xC000000000000000, 64)),
    "mov.u32 %r1, %tid.x;": (R1, Special("tid.x")),
    "mov.u32 %r1, %laneid;": (R1, Special("laneid")),
    "mov.u32 %r1, %envreg2;": (R1, Special("envreg2")),
    "mov.u32 a, tile;": (Reg("a"), Sym("tile")),
    "mov.u32 a, tile+8;": (Reg("a"), Sym("tile", 8)),
    "ld.global.b32 %r1, [%rd1];": (R1, Mem(Reg("%rd1"))),
    "ld.global.b32 %r1, [%rd1+4];": (R1, Mem(Reg("%rd1"), 4)),
    "ld.global.b32 %r1, [%rd1+-4];": (R1, Mem(Reg("%rd1"), -4)),
    "ld.global.b32 %r1, [ %rd1 - 4 ];": (R1, Mem(Reg("%rd1"), -4)),
    "ld.shared.b32 %r1, [tile+(2*4)];": (R1, Mem(Sym("tile"), 8)),
    "ld.param.u64 %rd1, [out];": (Reg("%rd1"), Mem(Sym("out"))),
    "ld.shared.b32 %r1, [16];": (R1, Mem(Imm(16))),
    "st.v2.b32 [%rd1], {%r1, %r2};": (Mem(Reg("%rd1")), Vec((R1, R2))),
    "ld.v2.b32 {%r1, _}, [%rd1];": (Vec((R1, Sink())), Mem(Reg("%rd1"))),
    "setp.eq.and.s32 %p1|q, %r1, 0, !p;": (Pair(P1, Reg("q")), R1, Imm(0), Not(Reg("p"))),
    "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;": (Pair(R1, P1), R2, Imm(0), Imm(31), Imm(-1)),
    "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [tile, {%f5,%f6}];": (
        Vec(tuple(Reg(f"%f{i}") for i in range(1, 5))),
        Mem(Sym("tile")),
        Vec((Reg("%f5"), Reg("%f6"))),
    ),
    "mov.f32 %f1, %v.y;": (Reg("%f1"), Reg("%v.y")),
    "st.v4.f32 [%rd1], %v;": (Mem(Reg("%rd1")), Vec(tuple(Reg(f"%v.{e}") for e in "xyzw"))),
    "vadd.s32.s32.s32 %r1, %r2.h0, %r2.b1, 0;": (R1, Sym("%r2.h0"), Sym("%r2.b1"), Imm(0)),
    "mad.lo.s32\n\t%r1 , // product\n %r2, /* two\nlines */ 3,\n4 ;": (R1, R2, Imm(3), Imm(4)),
    "ret;": (),
    "bar.sync 0;": (Imm(0),),
}


@pytest.mark.parametrize("text", OPERANDS)
def test_operands(text: str) -> None:
    (instruction,) = instructions(kernel(text))
    assert instruction.operands == OPERANDS[text]
    assert instruction.guard is None and instruction.index == 0


def test_instruction_fields() -> None:
    first, second, third = instructions(
        kernel("add.s32 %r1, %r2, 1; @%p1 bra L;\nL: @! q\tld.shared::cta.b32  %r1, [tile];")
    )
    assert (first.opcode, first.parts, first.ptx_line) == ("add.s32", ("add", "s32"), 8)
    assert (second.guard, second.guard_negated, second.text) == ("%p1", False, "@%p1 bra L;")
    assert (third.guard, third.guard_negated, third.ptx_line) == ("q", True, 9)
    assert third.parts == ("ld", "shared::cta", "b32")
    assert (third.index, third.text) == (2, "@! q ld.shared::cta.b32 %r1, [tile];")


def test_registers_are_those_in_use_and_typed() -> None:
    assert kernel("mov.b32 %r9, %f1; @p mov.f32 %f1, %v.x;").registers == {
        "%r9": "b32", "%f1": "f32", "%v.x": "f32", "p": "pred",
    }  # fmt: skip


def test_range_whose_prefix_ends_in_a_digit() -> None:
    (move,) = instructions(kernel(".reg .b32 %x1<3>; mov.b32 %x12, %x10;"))
    assert move.operands == (Reg("%x12"), Reg("%x10"))


def test_register_beside_a_range_of_its_name() -> None:
    """Triton's conversions of 8-bit floats declare both."""
    function = kernel("{ .reg .b32 w; .reg .f16 w<2>; mov.b32 {w0, w1}, w; }")
    assert {"w.1": "b32", "w0.1": "f16", "w1.1": "f16"}.items() <= function.registers.items()


def test_nested_scopes_rename_registers_labels_and_variables() -> None:
    function = kernel(
        "mov.b32 a, 0;\n"
        "{ .reg .b32 a; .param .b32 t; mov.b32 a, 1; bra L; st.param.b32 [t], a; L: }\n"
        "{ .reg .b32 a; .param .b32 t; mov.b32 a, 2; bra L; { L: bra L; bra M; } L: }\n"
        "M: mov.b32 a, 3;"
    )
    assert [i.operands[0] for i in instructions(function)] == [
        Reg("a"), Reg("a.1"), Sym("L.1"), Mem(Sym("t.1")), Reg("a.2"), Sym("L.2"),
        Sym("L.3"), Sym("M"), Reg("a"),
    ]  # fmt: skip
    labels = [item.name for item in function.body if isinstance(item, Label)]
    assert labels == ["L.1", "L.3", "L.2", "M"]
    assert [*function.variables] == ["tile", "t.1", "t.2"]


def test_calls_and_lists() -> None:
    module = parse(
        f"{HEAD}.func (.param .b32 r) f(.param .b32 x);\n"
        ".extern .func g;\n"
        + in_body(
            "ts: .branchtargets A, B; brx.idx %r1, ts;\nA: B:\n"
            "{ .param .b32 i; .param .b32 o; call.uni (o), f, (i); }\n"
            "{ .param .b32 i; .param .b32 o;\n"
            "proto : .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;\n"
            "call (o),\n%rd1,\n(\ni\n)\n, proto; }\n"
            "fs: .calltargets f, g; call (%r1), %rd1, (%r2, 7), fs; call g; call f, (%r1);"
        ).removeprefix(HEAD)
    )
    function = module.functions["k"]
    assert function.branch_targets == {"ts": ("A", "B")}
    assert function.call_targets == {"fs": ("f", "g")}
    returns, params = function.prototypes["proto.2"]
    assert (returns[0].type, params[0].size) == ("b32", 4)
    assert [*function.calls.values()] == [
        CallSite(Sym("f"), ("o.1",), ("i.1",), None),
        CallSite(Reg("%rd1"), ("o.2",), ("i.2",), "proto.2"),
        CallSite(Reg("%rd1"), ("%r1",), ("%r2", "7"), "fs"),
        CallSite(Sym("g"), (), (), None),
        CallSite(Sym("f"), (), ("%r1",), None),
    ]
    for index, call in function.calls.items():
        assert instructions(function)[index].operands == (call.target,)


VARIABLES: dict[str, dict[str, Any]] = {
    ".global .u32 x;": dict(space="global", type="u32", align=4, size=4, linkage=""),
    ".visible .global .align 8 .b8 x[3][5];": dict(align=8, size=15, linkage="visible"),
    ".extern .shared .align 16 .b8 x[];": dict(size=0, unsized=True, linkage="extern"),
    ".weak .const .v4 .f32 x[2];": dict(space="const", align=16, size=32, linkage="weak"),
    ".common .global .align 8 .u64 x;": dict(size=8, linkage="common"),
    ".global .attribute(.managed) .align 4 .u32 x = 3;": dict(managed=True, init=b"\3\0\0\0"),
    ".global .attribute(.unified(19,95)) .u32 x;": dict(managed=False, size=4),
    ".global .b8 x[6] = {104, 105, -1};": dict(size=6, init=b"hi\xff"),
    ".global .b8 x[] = {1, 2, 3};": dict(size=3, unsized=False, init=b"\1\2\3"),
    ".global .b8 x[1<<4];": dict(size=16),
    ".global .u16 x[2] = {0xFFFF, 010};": dict(init=b"\xff\xff\x08\0"),
    ".global .u8 x[2][3] = {{1}, {2, 3}};": dict(size=6, init=b"\1\0\0\2\3"),
    ".global .u8 x[][2] = {{1}, {2}, {3}};": dict(size=6, init=b"\1\0\2\0\3"),
    ".global .v2 .u8 x[2] = {{1, 2}, {3, 4}};": dict(init=b"\1\2\3\4"),
    ".global .f32 x[3] = {1.5, 0f40000000, 3};": dict(init=b"\0\0\xc0\x3f\0\0\0\x40\0\0\x40\x40"),
    ".global .f64 x = 0d3FF0000000000000;": dict(init=b"\0\0\0\0\0\0\xf0\x3f"),
    ".global .f64 x = 0f3F800000;": dict(init=b"\0\0\0\0\0\0\xf0\x3f"),
    ".global .f32 x = 1e300;": dict(init=b"\0\0\x80\x7f"),
    ".global .u64 x = y;": dict(init=bytes(8), relocations=((0, "y", 0, False),)),
    ".global .u64 x[2] = {0, y+8};": dict(init=bytes(16), relocations=((8, "y", 8, False),)),
    ".global .u64 x = generic(y)+8;": dict(relocations=((0, "y", 8, True),)),
    ".global .u64 x = generic(y+4);": dict(relocations=((0, "y", 4, True),)),
    ".global .u64 x[2] = {generic(y), y-4};": dict(
        relocations=((0, "y", 0, True), (8, "y", -4, False))
    ),
    ".global .u8 x[9] = {7, 0xFF(y), 0xFF00(y), 0xFF0000(y), 0xFF000000(y), 0xFF00000000(y), "
    "0xFF0000000000(y), 0xFF000000000000(y), 0xFF00000000000000(y)};": dict(
        init=b"\7" + bytes(8), relocations=((1, "y", 0, False),)
    ),
    ".global .texref x;": dict(type="texref", size=8),
}


@pytest.mark.parametrize("text", VARIABLES)
def test_variables(text: str) -> None:
    variable = parse(f"{HEAD}.global .u32 y;\n{text}").variables["x"]
    expected = VARIABLES[text]
    assert {name: getattr(variable, name) for name in expected} == expected


def test_several_declarators_and_shadowing_in_a_body() -> None:
    module = parse(in_body(".local .align 4 .b8 d[8], e[4]; .shared .u8 y = {1};"))
    sizes = [(v.name, v.space, v.size) for v in module.functions["k"].variables.values()]
    assert sizes[1:] == [("d", "local", 8), ("e", "local", 4), ("y", "shared", 1)]


HEADERS: dict[str, Callable[[PtxFunction], object]] = {
    ".entry f(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .b16 d)": lambda f: (
        [p.offset for p in f.params] == [0, 8, 16, 36]
        and [p.size for p in f.params] == [1, 8, 20, 2]
        and f.params[2].count == 20
        and f.param_bytes == 38
    ),
    ".entry f(.param .u64 .ptr .global .align 16 a, .param.b32 b)": lambda f: (
        f.params[0].pointer_space == "global"
        and (f.params[0].pointer_align, f.params[0].align) == (16, 8)
    ),
    ".entry f": lambda f: f.is_entry and f.params == [] and f.param_bytes == 0,
    ".entry f()\n.maxntid 256, 1, 1\n.minnctapersm 2 .maxnreg 64": lambda f: (
        f.directives == {"maxntid": (256, 1, 1), "minnctapersm": (2,), "maxnreg": (64,)}
    ),
    '.entry f() .reqntid 128 .explicitcluster .reqnctapercluster 2,1,1 .pragma "x";': lambda f: (
        f.directives == {"reqntid": (128,), "explicitcluster": (), "reqnctapercluster": (2, 1, 1)}
    ),
    ".func (.param .b32 r) f (.param .b8 a[])": lambda f: (
        not f.is_entry and f.returns[0].size == 4 and f.params[0].count == 0
    ),
    ".func (.reg .f32 r) f (.reg .f32 a) .noreturn": lambda f: (
        f.params[0].is_register and f.directives == {"noreturn": ()}
    ),
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("end", [";", "{ ret; }"])
def test_headers(header: str, end: str) -> None:
    function = parse(HEAD + header + end).functions["f"]
    assert HEADERS[header](function)
    assert function.is_declaration == (end == ";")


def test_register_parameters_are_registers() -> None:
    function = parse(HEAD + ".func (.reg .f32 r) f (.reg .f32 a) { neg.f32 r, a; ret; }").functions
    assert instructions(function["f"])[0].operands == (Reg("r"), Reg("a"))
    assert function["f"].registers == {"r": "f32", "a": "f32"}


def test_module_statements() -> None:
    module = parse(
        ".version 9.4\n.target sm_90a, debug\n.address_size 64\n"
        '.file 1 "a.cu", 12, 34\n.pragma "nounroll";\n.tex .u32 t;\n'
        ".func f; .func f { ret; } .func f; .weak .func g; .alias g, f;\n"
        ".extern .global .u32 x; .global .u32 x = 1;\n"
        ".section .debug_abbrev\n{\n.b8 1\n$L: .b32 $L+4\n}\n"
    )
    assert (module.version, module.target, module.address_size) == ("9.4", "sm_90a", 64)
    assert module.files == {1: "a.cu"}
    assert not module.functions["f"].is_declaration and module.functions["g"].body
    assert module.variables["x"].init == b"\1\0\0\0"


def test_locations_with_their_inlined_calls() -> None:
    module = parse(
        in_body(
            ".loc 1 10 3\nmov.b32 %r1, 1;\n"
            ".loc 1 4 5, function_name $L__info_string0, inlined_at 1 10 3\nmov.b32 %r1, 2;\n"
            ".loc 2 7 1, function_name $L__info_string0+3, inlined_at 1 4 5\nmov.b32 %r1, 3;\n"
            ".loc 1 0 3\nmov.b32 %r1, 4; .loc 1 11 1 ret;"
        )
        + '.file 1 "a.cu"\n.file 2 "b.h"\n'
        ".section .debug_str {\n$L__info_string0:\n.b8 95,90,49\n.b8 102,118,0\n}\n"
    )
    call = SourceLine("a.cu", 10, 3)
    inner = SourceLine("a.cu", 4, 5, call, "_Z1fv")
    assert [i.loc for i in instructions(module.functions["k"])] == [
        call, inner, SourceLine("b.h", 7, 1, inner, "fv"), None, SourceLine("a.cu", 11, 1),
    ]  # fmt: skip


OPCODES = [
    "add.sat.s32",
    "atom.global.cta.relaxed.add.noftz.f16x2",
    "bar.red.popc.u32",
    "barrier.cta.sync.aligned",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
    "cvt.rn.satfinite.e4m3x2.f32",
    "fence.proxy.async.shared::cta",
    "ld.relaxed.gpu.global.L1::no_allocate.L2::cache_hint.v4.u32",
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "lop3.b32",
    "prmt.b32.f4e",
    "setp.geu.and.f32",
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
    "tcgen05.mma.cta_group::1.kind::f16",
    "vabsdiff4.u32.u32.u32.add",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16",
]


@pytest.mark.parametrize("opcode", OPCODES)
def test_full_opcodes(opcode: str) -> None:
    (instruction,) = instructions(kernel(f"{opcode} {{%r1,%r2}}, [%rd1], %r2, 1;"))
    assert instruction.opcode == opcode == ".".join(instruction.parts)


BAD: dict[str, tuple[str, str, str]] = {
    "": ("kernel.ptx:1", "PTX starts with its version", "end of text"),
    ".target sm_80": ("kernel.ptx:1", "PTX starts with its version", ".target sm_80"),
    ".version nine": ("kernel.ptx:1", "a directive is not well formed", ".version nine"),
    HEAD + "garbage": ("kernel.ptx:4", "not a statement of a module", "garbage"),
    HEAD + "\n/* open": ("kernel.ptx:5", "a comment is not closed", "/*"),
    HEAD + ".entry k(.param .u99 x) {}": ("kernel.ptx:4", "not a type", ".u99"),
    HEAD + ".entry k() .fast {}": ("kernel.ptx:4", "not a directive of a function", ".fast {}"),
    HEAD + ".entry k() !": ("kernel.ptx:4", "k has neither a body nor a ;", "!"),
    HEAD + ".func f {} .func f {}": ("kernel.ptx:4", "a function is defined twice", "f"),
    HEAD + ".global .u8 x; .global .u8 x;": ("kernel.ptx:4", "a variable is declared twice", "x"),
    HEAD + ".global .b8 x[1152921504606846976];": (
        "kernel.ptx:4", "not an array size", "1152921504606846976",
    ),
    HEAD + ".global .b64 x[4294967296];": (
        "kernel.ptx:4", "a variable is too large", "34359738368 bytes",
    ),
    HEAD + ".global .u8 x[2] = {1, 2, 3};": (
        "kernel.ptx:4", "an initialiser has too many values", "",
    ),
    HEAD + ".global .u8 x[2] = {{1}};": (
        "kernel.ptx:4", "an initialiser is nested too deep", "{{1}}",
    ),
    HEAD + ".global .u8 x[2] = {1 2};": ("kernel.ptx:4", "not a number", "1 2"),
    HEAD + ".global .u8 x = 0f3F800000;": (
        "kernel.ptx:4", "a value does not fit a variable of type .u8", "0f3F800000",
    ),
    HEAD + ".global .u8 x[1] = {0xFF(x)};": (
        "kernel.ptx:4", "an address is given in part", "1 bytes of it",
    ),
    HEAD + "\n.global .u64 x = y;": (
        "kernel.ptx:5", "the initialiser of x names something unknown", "y",
    ),
    HEAD + ".global .align 3 .u8 x;": ("kernel.ptx:4", "not an alignment", ".align 3"),
    HEAD + ".alias a, b;": ("kernel.ptx:4", "an alias of an unknown function", "b"),
    in_body("add.s32 %r1, %r10, 1;"): ("kernel.ptx:8", "a register is not declared", "%r10"),
    in_body("add.s32 %r1, 5x, 1;"): ("kernel.ptx:8", "not a number", "5x"),
    in_body("add.s32 %r1, , 1;"): ("kernel.ptx:8", "not an operand", "nothing"),
    in_body("ret;\nadd.s32 %r1, #, 1;"): ("kernel.ptx:9", "not an operand", "#"),
    in_body("mov.u64 %rd1, 0x1FFFFFFFFFFFFFFFF;"): (
        "kernel.ptx:8", "an integer does not fit in 64 bits", "0x1FFFFFFFFFFFFFFFF",
    ),
    in_body("mov.b32 %r1, 1/0;"): ("kernel.ptx:8", "a constant expression divides by zero", ""),
    in_body("ld.b32 %r1, [%tid.x];"): ("kernel.ptx:8", "not an address", "[%tid.x]"),
    in_body("mov.b32 %r1, %r2+4;"): (
        "kernel.ptx:8", "only a variable takes an offset here", "%r2+4",
    ),
    in_body("@%r1 ret;"): ("kernel.ptx:8", "a guard is not a predicate", "@%r1"),
    in_body("bra L; ret;"): ("kernel.ptx:8", "L is not declared", "bra L;"),
    in_body("{ L: }\nbra L;"): ("kernel.ptx:9", "L is not declared", "bra L;"),
    in_body("L: L: ret;"): ("kernel.ptx:8", "a label stands twice in one scope", "L"),
    in_body(".reg .b32 a;"): ("kernel.ptx:8", "declared twice in one scope", "a"),
    in_body(".reg .b32 %q<99999999999>;"): (
        "kernel.ptx:8", "too many registers", "%q<99999999999>",
    ),
    in_body(".reg .b32 %q<0x4>;"): ("kernel.ptx:8", "not a register", "%q<0x4>"),
    in_body(".banana 3;"): ("kernel.ptx:8", "not a directive of a body", ".banana 3"),
    in_body("call (;"): ("kernel.ptx:8", "not a call", "("),
    in_body("{" * 100): ("kernel.ptx:8", "scopes are nested too deep", ""),
    in_body("ret"): ("kernel.ptx:8", "not a statement", "ret"),
    in_body("{ ret;"): ("kernel.ptx:10", "the body of k is not closed", "end of text"),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[-40:])
def test_messages(text: str) -> None:
    with pytest.raises(PtxError) as caught:
        parse(text)
    assert (caught.value.where, caught.value.what, caught.value.got) == BAD[text]


def test_an_error_quotes_the_source_line() -> None:
    text = in_body(".loc 1 2 1\nmov.b32 %r1, %x;") + '.file 1 "a.cu"\n'
    with pytest.raises(PtxError) as caught:
        parse(text, {"a.cu": "int a;\n  int b = x;\n"}, name="mine.ptx")
    assert caught.value.where == "mine.ptx:9 (from a.cu:2: int b = x;)"
    assert "%r<10>" in caught.value.allowed
