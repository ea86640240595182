"""Messages of PostgreSQL's protocol, right ones and ones that are changed, cut, lengthened and made up, before and after login."""

from __future__ import annotations

import random
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.raw_client import FLUSH, SYNC, RawClient, bind, describe, execute, message, parse, rows, startup
from tests.support.served import Served, children

TEXTS = (
    "SELECT COUNT(*) FROM plan", "SELECT $1::INTEGER", "SHOW BUDGET", "BEGIN", "COMMIT", "SET application_name = 'x'", "",
    "SELECT SUM(family_size) FROM person_year", "SET dp_epsilon = 0.2", "SELECT plan FROM plan WHERE plan = $1", ";;", "SELEC", "'",
    "SELECT * FROM plan; SELECT 1", "DEALLOCATE ALL", "SHOW server_version", "/* dpsql: x */", "EXPLAIN SELECT COUNT(*) FROM person",
)  # fmt: skip
"""None of them is charged: the budget is not what is looked for."""
BEFORE = 0.2
"""Share of the messages that are said before login."""


@dataclass
class Fuzzed:
    """Messages that were said, connections that were made, and problems."""

    messages: int = 0
    connections: int = 0
    problems: list[str] = field(default_factory=list)


def fuzz(server: Served, count: int, seed: int) -> Fuzzed:
    """Say so many messages; a problem is a process that ended or grew, a trace in the log, or a server that answers no more."""
    chance, found, begun = random.Random(seed), Fuzzed(), processes(server)
    memory = resident(server)
    while found.messages < count:
        found.connections += 1
        if chance.random() < BEFORE:
            found.messages += _before(server, chance)
        else:
            found.messages += _after(server, chance)
    found.problems += [line for line in server.lines if "invariant" in line or "Traceback" in line or "Error" in line]
    if begun - processes(server):
        found.problems.append("a process ended")
    # a few pools and caches fill once
    if resident(server) > memory + 100_000_000:
        found.problems.append(f"the front grew from {memory:,} to {resident(server):,} bytes")
    with RawClient(server.port) as client:
        client.login()
        if rows(client.query("SELECT COUNT(*) FROM plan")) != [["18"]]:
            found.problems.append("it answers no more")
    return found


def processes(server: Served) -> set[int]:
    return {pid for pid, _ in children(server.process.pid)}


def resident(server: Served) -> int:
    """[bytes] of the front."""
    front = next(pid for pid, line in children(server.process.pid) if "clients.server.front" in line)
    return int(Path(f"/proc/{front}/statm").read_text().split()[1]) * 4096


def _before(server: Served, chance: random.Random) -> int:
    """One connection that says something other than a login, and goes. Output: messages said."""
    said = [changed(_opening(chance), chance) for _ in range(chance.randint(1, 4))]
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        try:
            for part in said:
                one.sendall(part)
            if chance.random() < 0.3:
                one.shutdown(socket.SHUT_WR)
                one.recv(4096)
        except OSError:
            pass
    return len(said)


def _opening(chance: random.Random) -> bytes:
    name = f"user{chance.randrange(10**6)}"
    return chance.choice((
        startup(user=name, database="randhie"), startup(user=name), startup(user=name, options="-c statement_timeout=5"),
        struct.pack("!II", 8, 80877103), struct.pack("!II", 8, 80877104), struct.pack("!IIII", 16, 80877102, chance.getrandbits(32), 7),
        message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", 24) + b"n,,n=,r=" + chance.randbytes(16)),
        message(b"p", b"c=biws,r=x,p=" + chance.randbytes(12)), chance.randbytes(chance.randint(1, 60)),
    ))  # fmt: skip


def _after(server: Served, chance: random.Random) -> int:
    """One client who logs in and says things, up to where the server has enough of it. Output: messages said."""
    said = 0
    with RawClient(server.port) as client:
        if not client.login() or client.key == (0, 0):
            return 1
        client.socket.settimeout(60)
        for _ in range(chance.randint(1, 40)):
            parts = [changed(_spoken(chance), chance) for _ in range(chance.randint(1, 8))]
            said += len(parts)
            try:
                client.send(*parts, SYNC)
                client.socket.setblocking(False)
                while client.socket.recv(65536):
                    pass
                return said
            except BlockingIOError:
                client.socket.settimeout(60)
            except OSError:
                return said
    return said


def _spoken(chance: random.Random) -> bytes:
    text, name = chance.choice(TEXTS), chance.choice(("", "a", "b"))
    value = chance.choice((None, b"1", b"", chance.randbytes(8), struct.pack("!q", 3)))
    return chance.choice((
        message(b"Q", text.encode() + b"\0"), parse(text, name=name),
        parse(text, chance.choice((0, 23, 25, 1700, 99999)), name=name),
        bind(value, name=name, portal=name), bind(value, formats=(chance.choice((0, 1, 2)),), name=name), bind(name=name),
        describe(b"S", name), describe(b"P", name), execute(chance.choice((0, 1, 2**31)), name),
        message(b"C", b"S" + name.encode() + b"\0"), SYNC, FLUSH, message(b"d", b"x"), message(b"F", bytes(8)),
        message(bytes([chance.randrange(256)]), chance.randbytes(chance.randrange(20))),
    ))  # fmt: skip


def changed(said: bytes, chance: random.Random) -> bytes:
    """A message, half of the time as it is."""
    found = bytearray(said)
    match chance.randrange(10):
        case 0 if found:
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
        case 1:
            del found[chance.randrange(len(found) + 1) :]
        case 2:
            found += chance.randbytes(chance.randint(1, 9))
        case 3 if len(found) > 5:
            found[chance.randrange(1, 5)] = chance.randrange(256)
        case 4:
            at = chance.randrange(len(found) + 1)
            found[at:at] = chance.randbytes(chance.randint(1, 4))
    return bytes(found)
