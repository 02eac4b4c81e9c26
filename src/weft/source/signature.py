"""Determines the C++ names and parameters of the kernels in a PTX text.

A mangled entry name contains both. For an `extern "C"` kernel, a variable template is added to the
source and instantiated with the kernel's type. The compiler mangles the type into the variable's
name, and the variable is then removed from the PTX.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from weft.source import demangle, scan
from weft.values import Parameter

PROBE = "weft_signature_probe_"
PROBE_SOURCE = f"\ntemplate <class F> __device__ char {PROBE};\n"

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_PROBE_LINE = re.compile(rf"^[^\n]*{PROBE}[^\n]*\n", re.MULTILINE)


def probe(kernel: str) -> str:
    """The name expression whose lowered name has the type of a kernel."""
    return f"&{PROBE}<decltype(&{kernel})>"


def without_probes(ptx: str) -> str:
    return _PROBE_LINE.sub("", ptx)


def entry_names(ptx: str) -> list[str]:
    return [match[1] for match in _ENTRY.finditer(ptx)]


def spellings(ptx: str) -> dict[str, str]:
    """C++ spelling -> entry: `ns::k`, `k` if it is unique, `k(int)` for overloads."""
    readable = {name: _function(name) for name in entry_names(ptx)}
    full = Counter(function.name for function in readable.values())
    short = Counter(_unqualified(function.name) for function in readable.values())
    result: dict[str, str] = {}
    for entry, function in readable.items():
        if full[function.name] > 1:
            result[f"{function.name}({', '.join(function.parameters)})"] = entry
        else:
            result[function.name] = entry
            if short[_unqualified(function.name)] == 1:
                result[_unqualified(function.name)] = entry
    return result


def signatures(
    ptx: str, written: Iterable[scan.ScannedKernel] = (), probes: Mapping[str, str] | None = None
) -> dict[str, tuple[Parameter, ...]]:
    """Entry -> C++ parameters, with names from the `written` kernels if they match.

    `probes` maps an `extern "C"` kernel to its probe's mangled name. Entries whose types cannot
    be read, or do not agree with the PTX in number, are left out.
    """
    names = _names(written)
    result = {}
    for match in _ENTRY.finditer(ptx):
        entry, declared = match[1], match[2] or ""
        types = _types(entry, (probes or {}).get(entry))
        # A mismatch means that the name was read wrongly: no signature is better than a wrong one.
        if types is not None and len(types) == declared.count(".param"):
            base = _unqualified(_function(entry).name).partition("<")[0]
            parameter_names = names.get((base, len(types)), ("",) * len(types))
            result[entry] = tuple(
                Parameter(name or f"arg{i}", type)
                for i, (name, type) in enumerate(zip(parameter_names, types, strict=True))
            )
    return result


def _names(written: Iterable[scan.ScannedKernel]) -> dict[tuple[str, int], tuple[str, ...]]:
    """(kernel, number of parameters) -> their names, if all declarations agree."""
    declared: dict[tuple[str, int], set[tuple[str, ...]]] = {}
    for kernel in written:
        declared.setdefault((kernel.name, len(kernel.parameters)), set()).add(kernel.parameters)
    return {which: names.pop() for which, names in declared.items() if len(names) == 1}


def _types(entry: str, probed: str | None) -> tuple[str, ...] | None:
    try:
        if probed is not None:
            return demangle.probed_parameters(probed)
        return demangle.function(entry).parameters
    except demangle.Unreadable:
        return None


def _function(entry: str) -> demangle.DemangledFunction:
    """The demangled entry; unreadable and `extern "C"` names are unchanged."""
    try:
        return demangle.function(entry)
    except demangle.Unreadable:
        return demangle.DemangledFunction(entry, ())


def _unqualified(name: str) -> str:
    """`ns::k<a::b>` -> `k<a::b>`."""
    head, bracket, arguments = name.partition("<")
    return head.rpartition("::")[2] + bracket + arguments
