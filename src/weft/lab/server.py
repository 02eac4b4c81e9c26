"""The web server of the lab: who may talk to it, its routes, its start and its end.

It listens on the loopback interface only. A request needs the random token of this start, the Host
that the server listens on (against DNS rebinding) and, where the browser sends one, its own Origin.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from weft.lab.api import Api

STATIC = Path(__file__).parent / "static"
MOST_BYTES = 8 << 20
"""The largest request."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Guard:
    """Lets through only requests of the page that this server has handed its token to."""

    def __init__(self, app: Any, *, token: str, hosts: tuple[str, ...], cookie: str) -> None:
        self._app, self._token, self._hosts, self._cookie = app, token, hosts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        response = self._refusal(scope) or self._welcome(scope)
        await (response or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Any:
        headers = _headers(scope)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse("this host is not the lab's", 421)
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            return PlainTextResponse("requests of other sites are refused", 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return PlainTextResponse("the request is too long", 413)
        if scope["method"] == "POST" and "content-length" not in headers:
            return PlainTextResponse("a request states its length", 411)
        if self._asked(scope) is not None or self._is_known(headers):
            return None
        return PlainTextResponse(
            "this lab needs its token: open the address that `weft lab` printed", 403
        )

    def _asked(self, scope: Scope) -> str | None:
        """The token in the address of the first request, if it is right."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token = query.get("token", [""])[0]
        first = scope["path"] == "/" and scope["method"] == "GET"
        return token if first and self._same(token) else None

    def _is_known(self, headers: dict[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._same(cookie.value)

    def _same(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._token.encode())

    def _welcome(self, scope: Scope) -> Any:
        """Move the token from the address into a cookie; the browser keeps the fragment."""
        token = self._asked(scope)
        if token is None:
            return None
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie, token, httponly=True, samesite="strict", path="/")
        return response


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", [])
            known = {name.lower() for name, _ in given}  # a frame has a policy of its own
            more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message["headers"] = [*given, *(one for one in more if one[0] not in known)]
        await send(message)

    return sending


def app(api: Api, *, token: str, port: int) -> Guard:
    """The application, which tests call without a socket."""
    routes = [
        *(Route(f"/api/{path}", handler, methods=[method]) for method, path, handler in api.routes),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = tuple(f"{name}:{port}" for name in names)
    return Guard(Starlette(routes=routes), token=token, hosts=hosts, cookie=f"weft-lab-{port}")


def bound(port: int) -> socket.socket:
    """A socket on the loopback interface; at another port if this one is taken."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.bind(("127.0.0.1", 0))
    one.listen(64)  # now: the browser may ask before the server has started
    return one


def serve(api: Api, listening: socket.socket, token: str) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    port = listening.getsockname()[1]
    config = uvicorn.Config(
        app(api, token=token, port=port),
        log_level="warning",
        lifespan="off",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    server: Any = uvicorn.Server(config)
    ends = server.handle_exit

    def handle_exit(number: int, frame: Any) -> None:
        # First the worker: a request that waits for it would keep the server from ending.
        api.worker.stop("the lab ends")
        api.debugger.stop("the lab ends")
        ends(number, frame)

    server.handle_exit = handle_exit
    threading.Thread(target=api.worker.warm, daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it again after a clean end
        pass
    finally:
        api.worker.close()
        api.debugger.close()
