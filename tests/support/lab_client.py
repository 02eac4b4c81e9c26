"""A lab on a real socket for tests, and a client that can forge headers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import uvicorn

from weft.lab.api import Api
from weft.lab.process import LabWorker
from weft.lab.server import app, bound

TURN = r"""#include <cstdio>
__global__ void turn(const float* x, float* y, int n) {
    __shared__ float tile[32][32];
    int t = threadIdx.x;
    for (int i = 0; i < n; ++i) tile[i][t] = x[i * 32 + t];
    __syncthreads();
    if (t % 4 == 1)
        y[t] = tile[t][2] * 3;
    if (t == 5) printf("lane %d\n", t);
}
"""
JOB: dict[str, Any] = {
    "kind": "cuda",
    "source": TURN,
    "sizes": [{"name": "n", "value": 32}],
    "arrays": [
        {"name": "x", "dtype": "f32", "shape": "n, 32", "fill": "random"},
        {"name": "y", "dtype": "f32", "shape": "32", "fill": "zeros", "out": True},
    ],
    "launches": ["turn<<<1, 32>>>"],
    "reference": "where(arange(32) % 4 == 1, 3 * x[:, 2], 0)",
}


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Lab:
    """A running lab."""

    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"{}",
        headers: Mapping[str, str] | None = None,
        cookie: str | None = None,
    ) -> Response:
        """One request as the page makes it, but for the given headers."""
        known = f"weft-lab-{self.port}={self.token}" if cookie is None else cookie
        sent = {"Host": f"127.0.0.1:{self.port}", "Cookie": known}
        sent["Content-Length"] = str(len(body) if method == "POST" else 0)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path, skip_host=True)
        for name, value in {**sent, **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders(body if method == "POST" else None)
        with connection.getresponse() as answer:
            known_headers = {name.lower(): value for name, value in answer.getheaders()}
            response = Response(answer.status, known_headers, answer.read().decode())
        connection.close()
        return response

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.request("GET", f"/api/{path}?{urlencode(query)}").text
        )
        return answer

    def post(self, path: str, body: Any = None) -> dict[str, Any]:
        data = json.dumps(body or {}).encode()
        answer: dict[str, Any] = json.loads(self.request("POST", f"/api/{path}", data).text)
        return answer


@contextmanager
def running(worker: LabWorker, **options: Any) -> Iterator[Lab]:
    """A lab with this worker, until the end of the block."""
    listening = bound(0)
    one = Lab(listening.getsockname()[1], "a-token")
    api = Api(worker, **options)
    served = app(api, token=one.token, port=one.port)
    server = uvicorn.Server(uvicorn.Config(served, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield one
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        api.debugger.close()
