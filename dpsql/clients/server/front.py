"""The process that clients speak with: TLS, logins and the protocol. It holds no data and no ledger, and reaches no file.

Why     whoever has not logged in reaches its parsers, and nothing behind them
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from dpsql.clients.server import codec, login
from dpsql.clients.server.activity import Activity, Told
from dpsql.clients.server.asking import Asking
from dpsql.clients.server.codec import Broken
from dpsql.clients.server.confinement import Reach, become, confine, python_files
from dpsql.clients.server.conversation import Conversation
from dpsql.clients.server.frames import Lost, Message
from dpsql.clients.server.habits import ClientState, habit
from dpsql.clients.server.login import Cancel, Pauses, Visitor
from dpsql.clients.server.pool import Control, Pool
from dpsql.clients.server.scram import Verifier
from dpsql.core.errors import Error

BUFFER = 65536


@dataclass(slots=True)
class Front:
    """All clients of one server.

    names   of the datasets, in the supervisor's order
    logins  who has logged in, by the key with which another connection may cancel what they run
    """

    told: Message
    control: Control
    context: ssl.SSLContext | None
    pools: dict[str, tuple[int, Pool]] = field(default_factory=dict)
    logins: dict[tuple[int, int], Asking] = field(default_factory=dict)
    clients: int = 0
    of_user: Counter[str] = field(default_factory=Counter)
    pauses: Pauses = field(default_factory=Pauses)
    activity: Activity = field(default_factory=Activity)
    _last: int = 0

    async def serve(self, listener: socket.socket, http: socket.socket | None) -> None:
        datasets = self.told["datasets"]
        assert isinstance(datasets, list)
        asyncio.get_running_loop().set_exception_handler(_beside)
        for index, one in enumerate(datasets):
            assert isinstance(one, dict)
            pool = Pool(self.control, index, int(str(self.told["workers"])), float(str(one["seconds"])))
            self.pools[str(one["name"])] = (index, pool)
            say(*[f"{one['name']}: {line}" for line in await pool.start()])
        server = await asyncio.start_server(self.client, sock=listener, limit=BUFFER)
        if http is not None:
            from dpsql.clients.server.http import listen

            await listen(self, http)
        say("ready")
        async with server:
            await server.serve_forever()

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte. Nothing that a client does ends more than itself."""
        try:
            with self._counted():
                await self._client(reader, writer)
        except Broken as problem:
            writer.write(codec.failure(problem.state, problem.text, fatal=True))
        except Lost:
            writer.write(codec.failure("57P01", "the server is being stopped", fatal=True))
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass
        except Exception:
            say("a connection was ended: an invariant of the server failed")
            writer.write(
                codec.failure("DP901", "an invariant of the server failed; what was charged stays charged", fatal=True)
            )
        finally:
            with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
                async with asyncio.timeout(login.LOGIN_SECONDS):
                    await writer.drain()
            writer.close()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        if self.clients >= int(str(self.told["most_clients"])):
            raise Broken("the server has as many clients as it may", "53300")
        self.clients += 1
        try:
            yield
        finally:
            self.clients -= 1

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(login.LOGIN_SECONDS):
            visitor = await login.greet(reader, writer, self.context, self.told["tls_required"] is True)
            if isinstance(visitor, Cancel):
                self._cancel(visitor)
                return
            await login.authenticate(reader, writer, self._verifier, visitor, self.pauses)
        writer.write(codec.AUTHENTICATED)
        if self.of_user[visitor.user] >= int(str(self.told["most_of_user"])):
            raise Broken("this user has as many connections as one may have", "53300")
        self.of_user[visitor.user] += 1
        try:
            await self._converse(reader, writer, visitor)
        finally:
            self.of_user[visitor.user] -= 1
            self.of_user += Counter()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visitor: Visitor) -> None:
        client = ClientState(visitor.user, visitor.database)
        for name, value in visitor.parameters.items():
            # what is no habit of logins is passed over, as long as it is none of ours
            habit(f"SET {name} = '{value}'", client)
        self._last += 1
        key = (self._last, secrets.randbits(32))
        asking = Asking(self.pools[visitor.database][1], self.log)
        conversation = Conversation(reader, writer, client, asking)
        self.logins[key] = asking
        try:
            conversation.begin(*key)
            await conversation.run()
        finally:
            del self.logins[key]

    async def _verifier(self, visitor: Visitor) -> Verifier:
        """The verifier of a user of a dataset; where there is none of the two, one that nothing meets, at the same cost."""
        index = self.pools[visitor.database][0] if visitor.database in self.pools else -1
        answer, _ = await self.control.ask({"op": "verifier", "dataset": index, "user": visitor.user})
        found = Verifier.read(str(answer.get("verifier")))
        if found is None:
            raise Lost
        return found

    def _cancel(self, asked: Cancel) -> None:
        asking = self.logins.get((asked.process, asked.secret))
        if asking is not None:
            asking.cancel()

    def say(self, line: str) -> None:
        say(line)

    def log(self, user: str, dataset: str, sql: str, state: str, price: str) -> None:
        """One line a statement: never its values, and its text only where the owner wants it."""
        line = Told.now(user, dataset, sql, state, price, with_text=self.told["log_statements"] is True)
        self.activity.add(line)
        say(json.dumps({name: value for name, value in asdict(line).items() if value is not None}))


def _beside(loop: asyncio.AbstractEventLoop, told: dict[str, object]) -> None:
    """Failures outside of any conversation, such as TLS that nobody finished: without a trace, which could hold text of a client's."""
    if not isinstance(told.get("exception"), OSError | EOFError | TimeoutError | None):
        say("a connection was ended: an invariant of the server failed")


def say(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """One front, from its confinement to its end.

    arguments  JSON of what the supervisor passes on
    """
    told: Message = json.loads(arguments[0])
    context = None
    if told["certificate"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(str(told["certificate"]), str(told["key"]))
    if told["account"]:
        become(str(told["account"]))
    say(*confine(Reach(read=python_files())))
    control = Control(socket.socket(fileno=int(str(told["control"]))))
    listener = socket.socket(fileno=int(str(told["listener"])))
    listener.setblocking(False)
    http = None if told["http"] is None else socket.socket(fileno=int(str(told["http"])))
    try:
        asyncio.run(Front(told, control, context).serve(listener, http))
    except Error as problem:
        say(str(problem))
        return 4
    except Lost:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
