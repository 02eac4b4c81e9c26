"""Implement `verify`: run torch's checks of an op and report the results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError, CheckFailed, Error

_MEANS = {
    "test_schema": "the schema says what is written and what is aliased",
    "test_autograd_registration": "autograd knows the op",
    "test_faketensor": "the fake kernel gives the shapes, dtypes and strides of the real one",
    "test_aot_dispatch_static": "compiled, it gives the same values and gradients",
    "test_aot_dispatch_dynamic": "compiled for any size, it gives the same values and gradients",
}


@dataclass(frozen=True)
class Precision:
    """Parameters of `gradcheck` for a dtype; steps must be well above rounding errors."""

    eps: float
    atol: float
    rtol: float


PRECISIONS = {
    torch.float64: Precision(1e-6, 1e-5, 1e-3),
    torch.float32: Precision(1e-2, 1e-2, 1e-2),
}


@dataclass(frozen=True)
class Row:
    """One check: what it verifies, or why it failed or was skipped."""

    name: str
    passed: bool | None
    text: str

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: "left out"}[self.passed]
        return f"  {mark:8}  {self.name}: {self.text}"


@dataclass(frozen=True)
class Verified:
    """The results of all checks of an op."""

    op: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        return all(row.passed is not False for row in self.rows)

    def __str__(self) -> str:
        return "\n".join([self.op, *map(str, self.rows)])


def verify(
    op: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    nondet_tol: float = 0.0,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Verified:
    """Run `opcheck` and, where a tensor requires a gradient, `gradcheck`; raises CheckFailed."""
    named = dict(kwargs or {})
    target = getattr(op, "definition", op)
    if not isinstance(target, torch._ops.OpOverload | torch.library.CustomOpDef):
        raise ArgumentError(
            "verify takes an op",
            got=type(op).__name__,
            allowed="what as_op gives, or torch.ops.NAMESPACE.NAME.default",
        )
    rows = [*_opcheck(target, args, named)]
    rows.append(_gradcheck(op, args, named, nondet_tol, eps, atol, rtol))
    report = Verified(str(getattr(op, "name", op)), tuple(rows))
    if not report.passed:
        failed = [row for row in report.rows if row.passed is False]
        raise CheckFailed(
            f"{report.op}: {len(failed)} of {len(report.rows)} checks of the op failed",
            got="\n" + "\n".join(map(str, report.rows)),
        )
    return report


def _opcheck(op: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Row]:
    outcomes = torch.library.opcheck(op, args, dict(kwargs), raise_exception=False)
    return [
        Row(_title(name), True, _MEANS.get(name, ""))
        if result == "SUCCESS"
        else Row(_title(name), False, _why(result))
        for name, result in outcomes.items()
    ]


def _title(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _why(error: Any) -> str:
    """The first paragraph of an error; torch appends long advice."""
    cause = error.__cause__ or error if isinstance(error, BaseException) else error
    return " ".join(str(cause).split("\n\n")[0].split())


def _gradcheck(
    op: Any, args: Any, kwargs: Mapping[str, Any], nondet_tol: float,
    eps: float | None, atol: float | None, rtol: float | None,
) -> Row:  # fmt: skip
    name = "gradcheck"
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    wanted = [t.dtype for t in tensors if t.requires_grad]
    if not wanted:
        return Row(name, None, "no tensor among the arguments requires a gradient")
    precisions = [PRECISIONS[d] for d in wanted if d in PRECISIONS]
    if len(precisions) < len(wanted):
        coarse = ", ".join(sorted({str(d) for d in wanted if d not in PRECISIONS}))
        return Row(name, None, f"differences of {coarse} are too coarse to be a derivative")
    coarsest = max(precisions, key=lambda p: p.eps)
    p = Precision(eps or coarsest.eps, atol or coarsest.atol, rtol or coarsest.rtol)
    try:
        with warnings.catch_warnings():
            # The tolerances account for lower precisions.
            warnings.filterwarnings("ignore", message=".*not a double precision.*")
            torch.autograd.gradcheck(
                lambda *a: op(*a, **kwargs), args, eps=p.eps, atol=p.atol, rtol=p.rtol,
                nondet_tol=nondet_tol, check_undefined_grad=False,
            )  # fmt: skip
    except (RuntimeError, Error) as error:  # torch's GradcheckError is a RuntimeError
        return Row(name, False, _why(error))
    return Row(name, True, f"the gradient is that of differences with steps of {p.eps:g}")
