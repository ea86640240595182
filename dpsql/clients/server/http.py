"""The front's HTTP: who asks, and which request it is; JSON and Arrow out. As all of the front it holds no data and reaches no file.

Why     whoever has no token reaches the parser of HTTP's head, and nothing behind it: a body is read once it is known whose it is
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import socket
import ssl
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.clients.dbapi.packed import Json
from dpsql.clients.server import bodies, frames, page
from dpsql.clients.server.activity import GOOD
from dpsql.clients.server.codec import state_of
from dpsql.clients.server.frames import Lost, Message
from dpsql.clients.server.login import LOGIN_SECONDS
from dpsql.clients.server.pool import Asked, Pool, Reply, Statements
from dpsql.clients.server.tokens import OWNER, digest
from dpsql.core.errors import Error, error

if TYPE_CHECKING:
    from dpsql.clients.server.bearer import Bearers
    from dpsql.clients.server.front import Front

LONGEST_BODY = 1024 * 1024
LONGEST_HEAD = 16 * 1024
KNOWN_SECONDS = 1.0
"""For which a token that was looked up is known: so long a token that was removed may still hold."""
MOST_KNOWN = 1000
IDLE_SECONDS, FETCH_SECONDS = 60, 90
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has shown a token of a dataset. user  OWNER for its owner"""

    dataset: str
    user: str
    pool: Pool


class Denied(Exception):
    """Nobody whose token is known: told the same, whatever was wrong."""


@dataclass(slots=True)
class Http:
    """All requests of one server. bearers  of an issuer's tokens, where one is declared"""

    front: Front
    bearers: Bearers | None = None
    statements: Statements = field(default_factory=Statements)
    of_user: Counter[str] = field(default_factory=Counter)
    _known: OrderedDict[tuple[int, str], tuple[float, str | None]] = field(default_factory=OrderedDict)

    def routes(self) -> list[Route]:
        found = [
            Route("/health", self._walled(self.health), methods=["GET"]),
            Route("/metrics", self._walled(self.metrics), methods=["GET"]),
            Route("/", self._walled(self.page), methods=["GET"]),
            Route("/v1/{dataset}/schema", self._walled(self.schema), methods=["GET"]),
            Route("/v1/{dataset}/statements/{key:path}", self._walled(self.cancel), methods=["DELETE"]),
        ]
        for op in bodies.OPERATIONS:
            found.append(Route(f"/v1/{{dataset}}/{op}", self._walled(self._asking(op)), methods=["POST"]))
        return found

    def _walled(self, handler: Handler) -> Handler:
        """Whatever goes wrong is told as an error of dpsql's own, without a trace."""

        async def guarded(request: Request) -> Response:
            try:
                return await handler(request)
            except Denied:
                problem = error(803, "the token is not known here, or is over", hint="ask the owner for one")
                # one challenge: browsers read no further than the first
                asked = "Bearer" if request.url.path.startswith("/v1/") else 'Basic realm="dpsql", charset="UTF-8"'
                return bodies.failure(problem, 401, {"www-authenticate": asked})
            except Error as raised:
                return bodies.failure(raised)
            except Lost:
                return bodies.failure(error(707, "the server is being stopped; nothing was charged"), 503)
            except (TimeoutError, ClientDisconnect):
                return bodies.failure(error(802, "the request did not come in time"), 408)
            except Exception:
                return bodies.failure(error(901, "an invariant of the server failed; what was charged stays charged"))

        return guarded

    # --- who asks -------------------------------------------------------------------------------------------------------

    async def caller(self, request: Request, dataset: str) -> Caller:
        """Raises Denied: for a wrong token as for a dataset that there is not."""
        token = _bearer(request)
        index, pool = self.front.pools.get(dataset, (None, None))
        if token is None or index is None or pool is None:
            raise Denied
        user = await self._holder(index, token)
        if user is None:
            raise Denied
        return Caller(dataset, user, pool)

    async def _holder(self, index: int, token: str) -> str | None:
        hashed = digest(token)
        known = self._known.get((index, hashed))
        if known is not None and known[0] > time.monotonic():
            return known[1]
        asked: Message = {"op": "token", "dataset": index, "hash": hashed}
        if self.bearers is not None and token.count(".") == 2:
            asked = {"op": "subject", "dataset": index, "subject": await self.bearers.subject(token)}
        answer, _ = await self.front.control.ask(asked)
        user = answer.get("user")
        found = user if isinstance(user, str) else None
        self._known[index, hashed] = (time.monotonic() + KNOWN_SECONDS, found)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return found

    async def _callers(self, request: Request) -> list[Caller]:
        """Every dataset for which the token stands for somebody. Raises Denied where there is none."""
        found = []
        for name in self.front.pools:
            try:
                found.append(await self.caller(request, name))
            except Denied:
                continue
        if not found:
            raise Denied
        return found

    # --- requests -------------------------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """Alive: asks nobody else, so that it can be asked often."""
        return PlainTextResponse("ok\n")

    async def metrics(self, request: Request) -> Response:
        """Numbers of the datasets whose owner asks."""
        owned = [one.dataset for one in await self._callers(request) if one.user == OWNER]
        if not owned:
            raise Denied
        texts = [self.front.activity.metrics(name, self.front.clients) for name in owned]
        return PlainTextResponse("".join(texts), media_type="text/plain; version=0.0.4")

    async def page(self, request: Request) -> Response:
        """The owner's page, of every dataset that is theirs; an analyst's, of their own budget alone."""
        reports = []
        for one in await self._callers(request):
            asked: Message = {"op": "report", "analyst": one.user, "owner": one.user == OWNER}
            with self._one_more(one):
                told = (await one.pool.ask(asked, Asked())).head
            lines = [told for told in self.front.activity.newest if told.dataset == one.dataset]
            own = lines if one.user == OWNER else [told for told in lines if told.user == one.user]
            reports.append(page.DatasetReport(told, own))
        return bodies.html(page.write(reports))

    async def schema(self, request: Request) -> Response:
        one = await self.analyst(request)
        with self._one_more(one):
            return bodies.told((await one.pool.ask({"op": "schema", "analyst": one.user}, Asked())).head)

    async def cancel(self, request: Request) -> Response:
        """End what this analyst asked with a key; nothing where it has ended."""
        one = await self.analyst(request)
        self.statements.cancel((one.dataset, one.user, request.path_params["key"]))
        return bodies.told({})

    def _asking(self, op: str) -> Handler:
        async def ask(request: Request) -> Response:
            one = await self.analyst(request)
            with self._one_more(one):
                return await self._answered(op, one, request)

        return ask

    @contextmanager
    def _one_more(self, one: Caller) -> Iterator[None]:
        """One more request for the workers, as long as it lasts. Raises 802 where somebody asks as much at once as one may."""
        if self.of_user[one.user] >= int(str(self.front.told["most_of_user"])):
            raise error(802, "this user asks as much at once as one may", hint="wait for an answer")
        self.of_user[one.user] += 1
        try:
            yield
        finally:
            self.of_user[one.user] -= 1
            self.of_user += Counter()

    async def analyst(self, request: Request) -> Caller:
        """An analyst, by a bearer token: a browser that knows a password sends that with whatever page made it ask."""
        if not request.headers.get("authorization", "").lower().startswith("bearer "):
            raise Denied
        found = await self.caller(request, request.path_params["dataset"])
        if found.user == OWNER:
            raise error(803, "an owner asks nothing here", hint="use a token of `dpsql user token NAME`")
        return found

    async def _answered(self, op: str, one: Caller, request: Request) -> Response:
        asked = bodies.read(op, await _body(request), request.headers.get("idempotency-key", ""))
        content: Message = {**asked.content, "op": op, "analyst": one.user}
        if bodies.ARROW in request.headers.get("accept", ""):
            content = {**content, "accuracy": False, "ends": content["accuracy"]}
        reply = await self._ask(asked, content, one)
        return await bodies.answer(op, reply, request.headers.get("accept", ""))

    async def _ask(self, asked: bodies.HttpRequest, content: Message, one: Caller) -> Reply:
        """A statement goes on to its end when its client goes away (rule 73): nobody cancels the task that waits for it."""
        place = (one.dataset, one.user, asked.key)
        with self.statements.running(place) as cancellable:
            timer = asked.seconds and asyncio.get_running_loop().call_later(asked.seconds, cancellable.cancel)
            try:
                reply = await asyncio.shield(one.pool.ask(content, cancellable))
            except Error as problem:
                self.front.log(one.user, one.dataset, asked.sql, state_of(problem), "")
                raise
            finally:
                if timer:
                    timer.cancel()
        if content["op"] == "execute":
            self.front.log(one.user, one.dataset, asked.sql, GOOD, reply.epsilon)
        return reply


def _bearer(request: Request) -> str | None:
    """The token of a request: as a bearer's, or as the password that a browser asks for."""
    header: str = request.headers.get("authorization", "")
    kind, _, said = header.partition(" ")
    if kind.lower() == "bearer":
        return said.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(said.strip(), validate=True).decode("utf-8").partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            pass
    return None


async def _body(request: Request) -> bytes:
    """Raises 107 for one that is too long."""
    found = b""
    async with asyncio.timeout(LOGIN_SECONDS):
        async for part in request.stream():
            found += part
            if len(found) > LONGEST_BODY:
                raise error(107, f"a request is longer than {LONGEST_BODY:,} bytes", hint="ask for less at once")
    return found


async def _bearers(front: Front) -> Bearers | None:
    """Holders of the declared issuer's tokens, with its keys as they are now."""
    declared = front.told["issuer"]
    if not isinstance(declared, list):
        return None
    from dpsql.clients.server.bearer import Bearers

    async def fetch() -> Json:
        try:
            _, reader, writer = await front.control.link({"op": "keys"})
            async with asyncio.timeout(FETCH_SECONDS):
                found = await frames.receive_async(reader)
            writer.close()
        except (Lost, TimeoutError):
            return None
        return found.get("keys")

    bearers = Bearers(str(declared[0]), str(declared[1]), fetch)
    if not await bearers.renew():
        front.say(f"the keys of {declared[0]} could not be fetched; its tokens are refused until they can")
    return bearers


class PatientProtocol(H11Protocol):  # type: ignore[misc]
    """A connection that is closed where the head of a request does not come within LOGIN_SECONDS.

    Why  each connection is one of a number that all clients share
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes of a head do not begin its time anew: letter by letter a connection would be held for days."""
        try:
            super().data_received(data)
        except Exception:
            # such as letters in a path that no URL has: it ends itself alone
            self._stop()
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._late is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(LOGIN_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


async def listen(front: Front, listener: socket.socket) -> None:
    """Answer HTTP on a socket from now on, until this process ends."""
    http = Http(front, await _bearers(front))
    app = Starlette(routes=http.routes())
    config = uvicorn.Config(
        app, http=PatientProtocol, loop="asyncio", ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False,
        proxy_headers=False, server_header=False, h11_max_incomplete_event_size=LONGEST_HEAD, timeout_keep_alive=IDLE_SECONDS,
        limit_concurrency=int(str(front.told["most_clients"])),
    )  # fmt: skip
    config.load()
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()
    context: ssl.SSLContext | None = front.context
    await loop.create_server(
        lambda: PatientProtocol(config, server.server_state, {}), sock=listener, ssl=context,
        ssl_handshake_timeout=LOGIN_SECONDS if context is not None else None,
    )  # fmt: skip
