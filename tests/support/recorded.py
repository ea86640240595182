"""Statements about the catalog as clients send them: recorded between a client and a server, and said again.

    python -m tests.support.recorded

runs the clients that are here against a server of its own, and writes tests/fixtures/catalog/CLIENT.jsonl: a line a statement, with its
values as they were sent, and what came back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.raw_client import SYNC, RawClient, describe, errors, execute, message, parse, rows
from tests.support.served import PASSWORD, ROOT, Served, dataset, served

FOLDER = ROOT / "tests" / "fixtures" / "catalog"
JAR = Path("/usr/share/java/postgresql.jar")
PROBE = ROOT / "tests" / "clients" / "server" / "Probe.java"
_CATALOG = re.compile(r"pg_|information_schema|current_|version\(", re.IGNORECASE)
PSQL = (
    r"\d", r"\dt", r"\dt+", r"\d person", r"\d+ plan", r"\l", r"\dn", r"\du", r"\df", r"\dv", r"\di", r"\dT", r"\dp", r"\ds", r"\dm",
    r"\dE", r"\d pers*", r"\dt *.*",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recorded:
    """One statement with its values, their formats and types; simple  whether it came as a simple question"""

    sql: str
    values: tuple[bytes | None, ...] = ()
    formats: tuple[int, ...] = ()
    oids: tuple[int, ...] = ()
    simple: bool = True

    @property
    def line(self) -> dict[str, object]:
        values = [None if one is None else one.hex() for one in self.values]
        return {
            "sql": self.sql, "values": values, "formats": list(self.formats), "oids": list(self.oids), "simple": self.simple
        }  # fmt: skip

    @staticmethod
    def read(line: dict[str, object]) -> Recorded:
        values, formats, oids = line["values"], line["formats"], line["oids"]
        assert isinstance(values, list) and isinstance(formats, list) and isinstance(oids, list)
        read = tuple(None if one is None else bytes.fromhex(one) for one in values)
        return Recorded(str(line["sql"]), read, tuple(formats), tuple(oids), line["simple"] is True)

    def said(self, client: RawClient) -> dict[str, object]:
        """Say it, and tell what came: names of columns and rows as text, or the code of an error."""
        if self.simple:
            found = client.query(self.sql)
        else:
            bound = _bind(self.values, self.formats)
            client.send(parse(self.sql, *self.oids), bound, describe(b"P"), execute(), SYNC)
            found = client.until_ready()
        told = errors(found)
        if told:
            return {"error": told[0]["C"]}
        names = [_names(body) for kind, body in found if kind == b"T"]
        # what has no name has one of the sandbox's making, which its versions make in several ways
        named = [name if name.isidentifier() else "" for name in (names[0] if names else [])]
        return {"columns": named, "rows": rows(found)}


def _bind(values: tuple[bytes | None, ...], formats: tuple[int, ...]) -> bytes:
    parts = [struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values]
    head = b"\0\0" + struct.pack(f"!H{len(formats)}H", len(formats), *formats)
    return message(b"B", head + struct.pack("!H", len(values)) + b"".join(parts) + struct.pack("!H", 0))


def _names(body: bytes) -> list[str]:
    found, at = [], 2
    for _ in range(struct.unpack("!H", body[:2])[0]):
        end = body.index(b"\0", at)
        found.append(body[at:end].decode())
        at = end + 19
    return found


def load(client: str) -> list[tuple[Recorded, dict[str, object]]]:
    """Recorded statements of a client, each with what came back."""
    lines = map(json.loads, (FOLDER / f"{client}.jsonl").read_text(encoding="utf-8").splitlines())
    return [(Recorded.read(line), line["came"]) for line in lines]


# --- recording ------------------------------------------------------------------------------------------------------------


@dataclass
class Tap:
    """A listener that passes everything on, and keeps the statements."""

    port: int
    found: list[Recorded] = field(default_factory=list)
    _texts: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def heard(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            self.found.append(Recorded(body[:-1].decode()))
        elif kind == b"P":
            name, sql, rest = body.split(b"\0", 2)
            count = struct.unpack("!H", rest[:2])[0]
            self._texts[name.decode()] = sql.decode(), struct.unpack(f"!{count}I", rest[2 : 2 + 4 * count])
        elif kind == b"B":
            _, name, rest = body.split(b"\0", 2)
            self.found.append(_bound(*self._texts[name.decode()], rest))


def _bound(sql: str, oids: tuple[int, ...], rest: bytes) -> Recorded:
    def number(at: int) -> int:
        return int(struct.unpack("!H", rest[at : at + 2])[0])

    formats = tuple(number(2 + 2 * i) for i in range(number(0)))
    at = 2 + 2 * len(formats)
    count, values, at = number(at), list[bytes | None](), at + 2
    for _ in range(count):
        length = struct.unpack("!i", rest[at : at + 4])[0]
        values.append(None if length < 0 else rest[at + 4 : at + 4 + length])
        at += 4 + max(0, length)
    return Recorded(sql, tuple(values), formats, oids, False)


@contextmanager
def tapped(server: Served) -> Iterator[Tap]:
    """A port beside the server's at which everything is heard."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tap = Tap(listener.getsockname()[1])
        threading.Thread(target=_accept, args=(listener, server.port, tap), daemon=True).start()
        yield tap


def _accept(listener: socket.socket, port: int, tap: Tap) -> None:
    while True:
        try:
            one, _ = listener.accept()
        except OSError:
            return
        other = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=_pass, args=(other, one), daemon=True).start()
        threading.Thread(target=_hear, args=(one, other, tap), daemon=True).start()


def _pass(source: socket.socket, target: socket.socket) -> None:
    """Pass on, and tell the end."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_RDWR)


def _hear(source: socket.socket, target: socket.socket, tap: Tap) -> None:
    said, started = b"", False
    while part := source.recv(65536):
        target.sendall(part)
        said += part
        while len(said) >= (5 if started else 8):
            head = 0 if not started else 1
            length = struct.unpack("!I", said[head : head + 4])[0] + head
            if len(said) < length:
                break
            if started:
                tap.heard(said[:1], said[5:length])
            else:
                started = struct.unpack("!I", said[4:8])[0] >> 16 == 3
            said = said[length:]
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def _psql(port: int) -> None:
    address = f"host=127.0.0.1 port={port} user=alice dbname=randhie password='{PASSWORD}' sslmode=disable"
    words = [word for command in PSQL for word in ("-c", command)]
    subprocess.run(
        ["psql", "-X", address, *words], capture_output=True, env={**os.environ, "PAGER": "cat"}, check=False
    )


def _pgjdbc(port: int) -> None:
    address = f"jdbc:postgresql://127.0.0.1:{port}/randhie"
    command = ["java", "-cp", str(JAR), str(PROBE), address, "alice", PASSWORD, "metadata"]
    subprocess.run(command, capture_output=True, check=False)


def _sqlalchemy(driver: str) -> Callable[[int], None]:
    def run(port: int) -> None:
        import sqlalchemy

        login = f"alice:{PASSWORD.replace(' ', '%20')}"
        engine = sqlalchemy.create_engine(f"postgresql+{driver}://{login}@127.0.0.1:{port}/randhie")
        with engine.connect() as connection:
            found = sqlalchemy.inspect(connection)
            found.get_schema_names()
            found.get_view_names()
            for table in found.get_table_names():
                found.has_table(table)
                sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=connection)
                found.get_table_comment(table)
                found.get_check_constraints(table)
        engine.dispose()

    return run


def _asyncpg(port: int) -> None:
    import asyncpg

    async def run() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="alice", password=PASSWORD, database="randhie", ssl=False
        )
        await connection.fetch("SELECT current_database(), current_user")
        await connection.fetch(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = $1::VARCHAR", "main"
        )
        await connection.fetch("SELECT relname::text FROM pg_catalog.pg_class WHERE relkind = 'r' ORDER BY relname")
        await connection.close()

    asyncio.run(run())


CLIENTS: dict[str, Callable[[int], None]] = {
    "psql": _psql, "pgjdbc": _pgjdbc, "sqlalchemy_psycopg": _sqlalchemy("psycopg"), "sqlalchemy_pg8000": _sqlalchemy("pg8000"),
    "asyncpg": _asyncpg,
}  # fmt: skip


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(dataset(Path(folder))) as server:
        for name, run in CLIENTS.items():
            if name in ("psql", "pgjdbc") and shutil.which("psql" if name == "psql" else "java") is None:
                continue
            with tapped(server) as tap:
                run(tap.port)
            asked = dict.fromkeys(one for one in tap.found if _CATALOG.search(one.sql))
            with RawClient(server.port) as client:
                client.login()
                lines = [json.dumps({**one.line, "came": one.said(client)}, ensure_ascii=False) for one in asked]
            (FOLDER / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            refused = sum('"came": {"error"' in line for line in lines)
            print(f"{name}: {len(lines)} statements, {refused} refused")


if __name__ == "__main__":
    main()
