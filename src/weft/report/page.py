"""Renders profiles as one self-contained HTML page: source heat map, PTX, charts, addresses.

`page.html` is the template; `page.css` and `page.js` are inlined, so that nothing is fetched.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from weft.report import cells, charts, facts, stages, words
from weft.report.colour import colour
from weft.values.analysis import AnalysedProfile
from weft.values.profile import Instruction, Line, line_counters

AROUND = 6
"""Context lines before the first line with counters and after the last one."""


def page(profiles: Sequence[AnalysedProfile]) -> str:
    """The whole page."""
    title = ", ".join(dict.fromkeys(p.launch.kernel for p in profiles)) or "nothing was launched"
    return render("page", title=title, verb="profile", views=views(profiles))


def views(profiles: Sequence[AnalysedProfile]) -> list[dict[str, Any]]:
    """The values of the template for profiles; templates that extend `page.html` take them too."""
    return [_view(p, i) for i, p in enumerate(profiles)]


def render(template: str, *, script_of: str = "", **values: Any) -> str:
    """Render `template.html` of this folder with its style and script; page.css is shared.

    script_of  the template whose script the page has, where that is another one
    """
    sheets = dict.fromkeys(("page.css", f"{template}.css"))
    css = Markup("").join(_part(sheet) for sheet in sheets)
    js = _part(f"{script_of or template}.js")
    return _template(f"{template}.html").render(css=css, js=js, **values)


def fragment(p: AnalysedProfile) -> str:
    """The notebook's view: the page in an iframe, which isolates its styles."""
    return cells.frame(page([p]), "weft profile")


@functools.cache
def _template(name: str) -> jinja2.Template:
    loader = jinja2.FunctionLoader(
        lambda asked: files("weft.report").joinpath(asked).read_text("utf-8")
    )
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


@functools.cache
def _part(name: str) -> Markup:
    return Markup(files("weft.report").joinpath(name).read_text("utf-8"))


def _view(p: AnalysedProfile, number: int) -> dict[str, Any]:
    """The template values of one profile."""
    most = p.model.max_warps_per_sm
    data = {"samples": _samples(p), "lines": _hot(p)}
    return {
        "number": number,
        **facts.head(p),
        "measured": words.duration(p.measured) if p.measured is not None else "",
        "note": p.note,
        "occupancy": next(sec for sec in p.sections if sec.name == "Occupancy"),
        "advice": p.advice,
        "sections": [(sec, [(m, words.value(m)) for m in sec.metrics]) for sec in p.sections],
        "units": [
            (m.label.removeprefix("busy: "), m.value, words.value(m))
            for m in p.sections[0].metrics
            if m.label.startswith("busy: ")
        ],
        "roofline": Markup(charts.roofline(p.roofline, p.measured)),
        "curves": [Markup(charts.occupancy(c, most)) for c in p.curves],
        "stages": _stages(p),
        "files": _files(p),
        "heats": list(line_counters(p.lines)),
        "columns": facts.columns(p),
        "ptx": _ptx(p),
        # Inside of a script element: `</script>` in a source line must not end it.
        "data": Markup(json.dumps(data).replace("<", "\\u003c")),
    }


def _stages(p: AnalysedProfile) -> dict[str, Any] | None:
    if p.stages is None:
        return None
    return {
        "block": p.stages.block,
        "says": stages.says(p.stages),
        "chart": Markup(stages.chart(p)),
        "legend": stages.LEGEND,
    }


def _hot(p: AnalysedProfile) -> str:
    """The line that is selected first: the most memory traffic, else the most executions."""

    def weight(line: Line) -> tuple[int, int]:
        steps = sum(a.wavefronts + a.sectors for a in line.accesses if a.space != "local")
        return steps, line.executions

    return (
        _place(best.file, best.number) if (best := max(p.lines, key=weight, default=None)) else ""
    )


def _place(file: str, number: int) -> str:
    return f"{file}:{number}"


# ---- source and PTX ------------------------------------------------------------------------------
def _files(p: AnalysedProfile) -> list[tuple[str, list[dict[str, Any]]]]:
    out = []
    for name in dict.fromkeys(line.file for line in p.lines):
        counted = {line.number: line for line in p.lines if line.file == name}
        text = p.sources.get(name, "").splitlines()
        first, last = max(1, min(counted) - AROUND), min(len(text), max(counted) + AROUND)
        # Lines past the end of the text exist if the source changed after the profile was taken.
        beyond = sorted(number for number in counted if number > last)
        rows = []
        for number in (*range(first, last + 1), *beyond):
            line = counted.get(number)
            shown = text[number - 1] if number <= len(text) else (line.quote if line else "")
            rows.append(_row(p, name, number, shown, line))
        out.append((name, rows))
    return out


def _row(
    p: AnalysedProfile, file: str, number: int, text: str, line: Line | None
) -> dict[str, Any]:
    out: dict[str, Any] = {
        "number": number,
        "place": _place(file, number),
        "code": Markup(colour(text, file)),
        "counted": line is not None,
    }
    if line is None:
        return out
    return out | {
        "heat": json.dumps(facts.heat(p, line, 1, scale=100)),
        "sectors": words.sectors(line),
        "wavefronts": words.wavefronts(line),
        "lanes": words.lanes(line),
        "more": [c.text(line) for c in facts.columns(p)],
        **facts.marks(line),
        "advice": [a for a in p.advice if (a.file, a.line) == (file, number)],
    }


def _ptx(p: AnalysedProfile) -> list[dict[str, Any]]:
    # Labels have no instruction.
    by_line = {i.ptx_line: i for i in p.instructions}
    return [_instruction(number, text, by_line.get(number)) for number, text in p.ptx]


def _instruction(number: int, text: str, ins: Instruction | None) -> dict[str, Any]:
    source = ins.line.own if ins is not None and ins.line is not None else None
    return {
        "number": number,
        "code": " ".join(text.split()),
        "label": ins is None,
        "place": _place(source.file, source.line) if source else "",
        "executions": words.amount(ins.executions) if ins else "",
        "times": ins.executions if ins else 0,
    }


def _samples(p: AnalysedProfile) -> list[dict[str, Any]]:
    """The sampled addresses of warps, with labels for the drawing."""
    owner = {i.index: i for i in p.instructions}
    gx, gy, _ = p.launch.grid
    out = []
    for s in p.samples:
        ins = owner[s.instruction]
        source = ins.line.own if ins.line is not None else None
        block = f"({s.block % gx}, {s.block // gx % gy}, {s.block // (gx * gy)})"
        out.append(
            {
                "place": _place(source.file, source.line) if source else "",
                "ptx": ins.ptx_line,
                "text": f"{s.kind} of {s.nbytes} bytes, {s.place or 'memory'} (PTX {ins.ptx_line})",
                "block": block,
                "warp": s.warp,
                "array": s.place,
                "nbytes": s.nbytes,
                "offsets": list(s.offsets),
            }
        )
    return out
