"""Converts NVRTC's log to a `CompileError`: the first error with location, line and caret."""

from __future__ import annotations

import re

from weft.errors import CompileError
from weft.quoting import similar
from weft.source import headers, scan

_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<what>[^\n]*)"
    r"(?P<quote>(?:\n[ \t]+[^\n]*){0,2})",
    re.MULTILINE,
)
_OWN_ERROR = re.compile(r"^nvrtc: error: (.*)", re.MULTILINE)
_EXPRESSION_FILE, _EXPRESSION = "__nv_name_map", "#pragma nv_mangled_name "
_MISSING_HEADER = re.compile(r'cannot open source file "([^"]+)"')
_HOST_FUNCTION = re.compile(r"execution space annotations")
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_CONFUSED = re.compile(r"does not apply here|no storage class or type specifier")
"""NVRTC's messages for a declaration that contains an unknown name."""
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_SPECIFIER = re.compile(r"\b__[a-z_]+__\b")
_CUDA_NAMES = (
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__global__", "__device__",
    "__shared__", "__constant__", "__restrict__", "__forceinline__", "__launch_bounds__",
    "__syncthreads", "__syncwarp", "__threadfence", "__shfl_sync", "__shfl_up_sync",
    "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync", "__any_sync", "__all_sync",
    "__activemask", "__popc", "__ldg", "__trap", "atomicAdd", "atomicSub", "atomicMin",
    "atomicMax", "atomicExch", "atomicCAS", "atomicAnd", "atomicOr", "atomicXor", "printf",
    "assert", "float2", "float4", "make_float2", "make_float4", "int2", "int4", "size_t",
    "uint8_t", "uint32_t", "uint64_t", "int64_t", "fminf", "fmaxf", "sqrtf", "rsqrtf", "expf",
    "logf", "__half", "__half2", "__nv_bfloat16", "void", "bool", "char", "int", "unsigned",
    "float", "double", "const", "struct", "template", "typename", "return",
)  # fmt: skip
"""Candidates for misspelt names, in addition to names in the source."""
_HEADERS = (
    (re.compile(r"__?half2?$|half2?$|__float2half|__half2float|__hadd|__hfma"), "cuda_fp16.h"),
    (re.compile(r"__nv_bfloat162?$|__float2bfloat16|__bfloat162float"), "cuda_bf16.h"),
    (re.compile(r"cooperative_groups$|cg$"), "cooperative_groups.h"),
    (re.compile(r"nvcuda$|wmma$"), "mma.h"),
)
"""Names that NVIDIA headers define, and these headers."""


def error(log: str, name: str, source: str = "") -> CompileError:
    """The error to raise for a log.

    name    the compiled file, where the log names none
    source  its text, whose words a misspelt name is compared with
    """
    errors = list(_ERROR.finditer(log))
    if errors:
        result = _located(errors[0], len(errors) - 1, log, source)
    else:
        nvrtc_error = _OWN_ERROR.search(log)
        result = CompileError(nvrtc_error[1] if nvrtc_error else log.partition("\n")[0], where=name)
    result.log = log
    return result


def _located(first: re.Match[str], others: int, log: str, source: str) -> CompileError:
    what, quote, next = first["what"], first["quote"], ""
    where = f"{first['file']}:{first['line']}"
    if first["file"] == _EXPRESSION_FILE:
        where, quote = "name expression", _without_pragma(quote)
    if missing := _MISSING_HEADER.search(what):
        what, next = headers.advice(missing[1])
    elif _HOST_FUNCTION.search(what):
        what = "a function without __global__ or __device__ is for the host"
        next = f"declare a kernel __global__, what kernels call __device__; {headers.HOST_CODE}"
    elif name := _misspelt(what, quote, log):
        next = _meant(name, source, log)
    if others:
        quote += f"\n  and {others} more error{'s' * (others > 1)}: see .log"
    return CompileError(what + quote, where=where, next=next)


def _misspelt(what: str, quote: str, log: str) -> str:
    """The unknown name that causes the error, or ""."""
    undefined = _UNDEFINED.search(what)
    if undefined is None and _CONFUSED.search(what):
        unknown = [word for word in _SPECIFIER.findall(quote) if word not in _CUDA_NAMES]
        if unknown:
            # NVRTC reports the following token, not the misspelt specifier.
            return str(unknown[0])
        undefined = _UNDEFINED.search(log)
    return undefined[1] if undefined else ""


def _meant(name: str, source: str, log: str) -> str:
    """Suggest the header that defines a name, or a similar name of the code."""
    header = next((h for pattern, h in _HEADERS if pattern.match(name)), "")
    if header and header not in source:
        return f"#include <{header}>"
    code = _STRING.sub('""', scan.without_comments(source))
    used = re.findall(r"[A-Za-z_]\w+", code)
    words = sorted({*used} - {*_UNDEFINED.findall(log), *_CUDA_NAMES, name})
    near = similar(name, [*_CUDA_NAMES, *words], 0.75)
    if not near:
        return ""
    # A name that nothing uses may itself be the misspelt one.
    if near not in _CUDA_NAMES and used.count(near) == 1:
        return f"the source declares '{near}': write both names alike"
    return f"did you mean '{near}'?"


def _without_pragma(quote: str) -> str:
    """Remove NVRTC's pragma from a quoted name expression, and move the caret."""
    lines = quote.split("\n")
    at = lines[1].find(_EXPRESSION) if len(lines) == 3 else -1
    if at < 0:
        return quote
    cut = slice(at, at + len(_EXPRESSION))
    return "\n".join(["", *(line[: cut.start] + line[cut.stop :] for line in lines[1:])])
