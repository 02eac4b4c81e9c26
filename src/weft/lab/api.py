"""The handlers of the server: jobs for the worker, and what needs no worker."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from weft.device import models
from weft.device.occupancy import occupancy
from weft.device.selection import select
from weft.errors import ArgumentError, Error
from weft.lab import chapters, job, origins, times
from weft.lab.debugger.api import DebugApi
from weft.lab.process import LabWorker, Stopped
from weft.lab.saving import Files
from weft.measure.profile import schema
from weft.measure.profile.cliffs import curves
from weft.measure.profile.difference import diff
from weft.measure.profile.result import Profile
from weft.report import charts, words
from weft.values.analysis import Curve
from weft.values.profile import LaunchShape

RUNS = 8
"""Profiles that the server keeps for traces and comparisons."""
ACTIONS = ("inspect", "run", "check", "sanitize", "profile", "timeline")

FRAMED = {
    "content-security-policy": "default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; sandbox allow-scripts; frame-ancestors 'self'"
}
"""The policy of a page that has its script in it: it has no origin, so no cookie and no server."""

Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The state of one lab: its worker, the last profiles, and whether Python may run."""

    def __init__(
        self,
        worker: LabWorker,
        *,
        start: Mapping[str, Any] | None = None,
        python: bool = False,
        files: Files | None = None,
        debugger: DebugApi | None = None,
    ) -> None:
        """`start` is the job that the page begins with; `python` allows Python sources at once.

        `files` are those that the page opens and saves; without them, of `./learn`.
        """
        self.worker, self._start, self._python = worker, start, python
        self.debugger = DebugApi(worker) if debugger is None else debugger
        self._files = files or Files(Path("learn"))
        self._runs: OrderedDict[str, dict[str, Any]] = OrderedDict()

    @property
    def routes(self) -> list[tuple[str, str, Handler]]:
        """(method, path below /api/, handler)."""
        rows: list[tuple[str, str, Callable[[Request], Awaitable[Any]]]] = [
            ("GET", "start", self.start),
            ("GET", "menu", self.menu),
            ("GET", "open", self.open),
            ("GET", "languages", self.languages),
            ("POST", "save", self.save),
            ("GET", "chapter", self.chapter),
            ("GET", "figure", self.figure),
            ("GET", "occupancy", self.occupancy),
            ("GET", "trace", self.trace),
            ("GET", "compare", self.compare),
            ("GET", "predict", self.predict),
            ("GET", "timeline", self.timeline),
            ("GET", "trace.json", self.trace_file),
            ("POST", "do/{action}", self.do),
            ("POST", "debug/{command}", self.debug),
            ("POST", "stop", self.stop),
            ("POST", "allow-python", self.allow_python),
        ]
        return [(method, path, _answering(handler)) for method, path, handler in rows]

    # ---- jobs ------------------------------------------------------------------------------------
    async def do(self, request: Request) -> dict[str, Any]:
        """Gives a job to the worker."""
        action = request.path_params["action"]
        if action not in ACTIONS:
            raise ArgumentError("no such action", got=action, allowed=", ".join(ACTIONS))
        data = await _object(request)
        if not self._python and _asks(job.read(data), action):
            return {"ok": False, "needs": "python"}
        answer: dict[str, Any] = await run_in_threadpool(self.worker.ask, action, data)
        if action == "check" and "passed" in answer and answer.get("graded"):
            asked = str(data.get("origin", "")), str(data.get("source", ""))
            await run_in_threadpool(self._files.graded, *asked, bool(answer["passed"]))
        for kept in (("traces", "records"), ("page", "trace")):
            if kept[0] in answer:
                answer["run"] = self._keep({name: answer.pop(name) for name in kept})
        return answer

    async def debug(self, request: Request) -> dict[str, Any]:
        """Gives a command to the debugger; `start` has the job."""
        command, data = request.path_params["command"], await _object(request)
        if command == "start":
            asked = data.get("job")
            one = job.read(asked if isinstance(asked, dict) else {})
            if not self._python and _asks(one, command):
                return {"ok": False, "needs": "python"}
        answer: dict[str, Any] = await run_in_threadpool(self.debugger.command, command, data)
        return answer

    async def stop(self, request: Request) -> dict[str, Any]:
        """Ends the running job."""
        await run_in_threadpool(self.worker.stop)
        return {}

    async def allow_python(self, request: Request) -> dict[str, Any]:
        """The user has read what running Python means, and agrees, until the lab ends."""
        self._python = True
        return {}

    def _keep(self, made: dict[str, Any]) -> str:
        name = secrets.token_hex(4)
        self._runs[name] = made
        while len(self._runs) > RUNS:
            self._runs.popitem(last=False)
        return name

    # ---- what was measured -----------------------------------------------------------------------
    async def trace(self, request: Request) -> dict[str, Any]:
        """The traces of a block's warps at one line."""
        query = request.query_params
        traces = self._run(query["run"])["traces"][int(query["launch"])]
        return {"warps": traces.get(query["line"], {})}

    async def compare(self, request: Request) -> dict[str, Any]:
        """The differences between two profiles, launch by launch."""
        query = request.query_params
        sides = [
            [schema.value(Profile, one, "profile") for one in self._run(name)["records"]]
            for name in (query["a"], query["b"])
        ]
        changes = [diff(a, b) for a, b in zip(*sides, strict=False)]
        return {
            "launches": [
                {
                    "names": c.names,
                    "sections": [[name, [[x.what, *words.change(x)] for x in rows]]
                                 for name, rows in c.sections],
                    "lines": [[x.before, x.after, x.quote,
                               [[y.what, *words.change(y)] for y in x.counters]]
                              for x in c.lines],
                }
                for c in changes
            ]
        }  # fmt: skip

    async def predict(self, request: Request) -> dict[str, Any]:
        """The predicted times of a profile on GPUs, from its counters."""
        query = request.query_params
        records = self._run(query["run"])["records"]
        found: dict[str, Any] = await run_in_threadpool(times.predicted, records, query["on"])
        return found

    async def timeline(self, request: Request) -> Response:
        """The page of a timeline, for a frame. Its script is in it, and can reach nothing."""
        return HTMLResponse(self._run(request.query_params["run"])["page"], headers=FRAMED)

    async def trace_file(self, request: Request) -> Response:
        """A timeline in the Trace Event format, as a file."""
        kept = self._run(request.query_params["run"])["trace"]
        name = {"content-disposition": 'attachment; filename="trace.json"'}
        return JSONResponse(kept, headers=name)

    def _run(self, name: str) -> dict[str, Any]:
        if name not in self._runs:
            raise ArgumentError("this profile is no longer kept", next="profile it again")
        return self._runs[name]

    # ---- what needs no worker --------------------------------------------------------------------
    async def start(self, request: Request) -> dict[str, Any]:
        """The start of the page: a job, the GPU models, the limits."""
        known = {key: models.get(key).name for key in models.names()}
        default = select("sim").model.key
        limits = {"seconds": self.worker.limit, "memory": self.worker.memory}
        return {
            "job": self._start,
            "models": known,
            "model": default,
            "python": self._python,
            "limits": limits,
        }

    async def menu(self, request: Request) -> dict[str, Any]:
        """Examples, ladders and chapters that the page can open."""
        menu: dict[str, Any] = await run_in_threadpool(origins.catalogue)
        return {**menu, "progress": await run_in_threadpool(self._files.progress)}

    async def open(self, request: Request) -> dict[str, Any]:
        """A rung, an exercise or an example as a job."""
        return {"job": await run_in_threadpool(self._files.opened, request.query_params["origin"])}

    async def languages(self, request: Request) -> dict[str, Any]:
        """The jobs that compute the same in other languages, with the user's own texts."""
        same = await run_in_threadpool(origins.languages, request.query_params["origin"])
        return {"jobs": [await run_in_threadpool(self._files.opened, one) for one in same]}

    async def save(self, request: Request) -> dict[str, Any]:
        """Writes the source of an exercise, or of the file that the lab was started with."""
        data = await _object(request)
        one = job.read(data)
        saved: dict[str, Any] = await run_in_threadpool(
            self._files.save,
            one.origin,
            one.source,
            str(data.get("version", "")),
            data.get("force") is True,
        )
        return saved

    async def chapter(self, request: Request) -> dict[str, Any]:
        """The text of a chapter as HTML."""
        number = int(request.query_params["number"])
        text: dict[str, Any] = await run_in_threadpool(chapters.text, number)
        return text

    async def figure(self, request: Request) -> Response:
        """A figure of a chapter."""
        query = request.query_params
        svg = await run_in_threadpool(chapters.figure, int(query["number"]), query["name"])
        return Response(svg, media_type="image/svg+xml")

    async def occupancy(self, request: Request) -> dict[str, Any]:
        """The occupancy for a block size, registers and shared memory, and its curves."""
        query = request.query_params
        model = select(query.get("device", "sim")).model
        threads, registers, shared = (
            int(query[name]) for name in ("threads", "registers", "shared")
        )
        if not 1 <= threads <= model.max_threads_per_block:
            raise ArgumentError("a block has 1 to 1024 threads", got=str(threads))
        fit = occupancy(model, threads=threads, registers=registers, shared_bytes=shared)
        shape = LaunchShape("", (1, 1, 1), (threads, 1, 1), shared, 0, registers)
        return {
            "blocks": fit.blocks, "warps": fit.warps, "max_warps": fit.max_warps,
            "limits": fit.limits, "limiter": fit.limiter, "gpu": model.name,
            "most": {"threads": model.max_threads_per_block, "shared": model.shared_per_block},
            "curves": [_drawn(c, model.max_warps_per_sm) for c in curves(shape, model)],
        }  # fmt: skip


def _asks(one: job.Job, action: str) -> bool:
    """Return whether an action executes code that has the user's rights."""
    return one.is_python or (one.is_program and action != "inspect")


async def _object(request: Request) -> dict[str, Any]:
    """The JSON object of a request."""
    data = json.loads(await request.body())
    if not isinstance(data, dict):
        raise ArgumentError("a request is an object", got=type(data).__name__)
    return data


def _drawn(curve: Curve, most: int) -> str:
    return charts.occupancy(curve, most)


def _answering(handler: Callable[[Request], Awaitable[Any]]) -> Handler:
    """A handler whose errors become answers that the page shows."""

    async def answer(request: Request) -> Response:
        try:
            result = await handler(request)
            return result if isinstance(result, Response) else JSONResponse(result)
        except Stopped as error:
            text, kind = str(error), "Stopped"
        except Error as error:
            text, kind = str(error), "Error"
        except (KeyError, ValueError, IndexError, RecursionError) as error:
            return JSONResponse({"ok": False, "error": _said("BadRequest", repr(error))}, 400)
        return JSONResponse({"ok": False, "error": _said(kind, text)})

    return answer


def _said(kind: str, text: str) -> dict[str, Any]:
    return {"kind": kind, "text": text, "marks": []}
