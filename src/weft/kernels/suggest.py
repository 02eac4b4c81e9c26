"""Suggestions for the name of a kernel that a module does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from weft.errors import ArgumentError, Error
from weft.quoting import similar
from weft.source import scan

_EXAMPLES = ((r"\b(typename|class)\b", "float"), (r"\bbool\b", "true"), (r"", "128"))
"""A parameter of a template, and an argument that such a parameter takes."""


def suggest(name: str, names: Sequence[str], sources: Mapping[str, str]) -> str:
    """The suggestion: an instance of a template, a missing `__global__`, a similar name."""
    base = name.partition("<")[0]
    instances = [known for known in names if known.startswith(f"{base}<")]
    if instances:
        return f"it is a template, name an instance: {_kernel(instances[0])}"
    written = [k for text in sources.values() for k in scan.kernels(text)]
    templates = {k.name: k for k in written if k.template}
    if base in templates and "<" not in name:
        example = f"{base}<{', '.join(map(_example, templates[base].template))}>"
        parameters = ", ".join(templates[base].template)
        return f"it is a template <{parameters}>, name an instance: {_kernel(example)}"
    # Before near names: a function without `__global__` has exactly this name.
    if any(_is_function(base, text) for text in sources.values()):
        return f"'{base}' is a function but not a kernel: declare it `__global__ void {base}(...)`"
    near = similar(base, [*names, *templates])
    return f"did you mean '{near}'?" if near else ""


def listed(names: Iterable[str], sources: Mapping[str, str]) -> str:
    """The available kernels and templates, in one line."""
    written = [k for text in sources.values() for k in scan.kernels(text)]
    templates = dict.fromkeys(f"{k.name}<{', '.join(k.template)}>" for k in written if k.template)
    return ", ".join([*names, *templates]) or "nothing: the source has no __global__ function"


def unexpected(kernel: str, given: Iterable[str], known: Sequence[str]) -> Error:
    """The error for keyword arguments of a launch: they must be options, spelt correctly."""
    first = next(iter(given))
    near = similar(first, known)
    return ArgumentError(
        f"{kernel} does not take this by name",
        got=f"{first}=",
        allowed=f"{', '.join(f'{name}=' for name in known)}; a kernel's arguments come in order",
        next=f"did you mean '{near}='?" if near else "",
    )


def _kernel(name: str) -> str:
    return f'module.kernel("{name}")'


def _example(parameter: str) -> str:
    return next(value for pattern, value in _EXAMPLES if re.search(pattern, parameter))


def _is_function(name: str, text: str) -> bool:
    body = rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*\{{"
    return re.search(body, scan.without_comments(text)) is not None
