"""A client that says PostgreSQL's messages byte by byte, and those messages."""

from __future__ import annotations

import socket
import struct

from tests.support.served import PASSWORD, WAIT_SECONDS


def startup(**parameters: str) -> bytes:
    body = struct.pack("!I", 3 << 16) + b"".join(f"{n}\0{v}\0".encode() for n, v in parameters.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def parse(sql: str, *oids: int, name: str = "") -> bytes:
    return message(b"P", f"{name}\0{sql}\0".encode() + struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def bind(*values: bytes | None, formats: tuple[int, ...] = (), name: str = "", portal: str = "") -> bytes:
    parts = [struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values]
    head = f"{portal}\0{name}\0".encode() + struct.pack(f"!H{len(formats)}H", len(formats), *formats)
    return message(b"B", head + struct.pack("!H", len(values)) + b"".join(parts) + struct.pack("!H", 0))


def describe(what: bytes, name: str = "") -> bytes:
    return message(b"D", what + name.encode() + b"\0")


def execute(most: int = 0, portal: str = "") -> bytes:
    return message(b"E", portal.encode() + b"\0" + struct.pack("!I", most))


SYNC, FLUSH, TERMINATE = message(b"S"), message(b"H"), message(b"X")


class RawClient:
    """A connection on which a test says what it likes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self._rest = b""
        self.key = (0, 0)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message; None at the end of the connection."""
        while len(self._rest) < 5 or len(self._rest) < 1 + struct.unpack("!I", self._rest[1:5])[0]:
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self._rest += more
        end = 1 + struct.unpack("!I", self._rest[1:5])[0]
        found, self._rest = self._rest[:end], self._rest[end:]
        return found[:1], found[5:]

    def until_ready(self) -> list[tuple[bytes, bytes]]:
        """Messages up to ReadyForQuery or the end."""
        found = []
        while (one := self.receive()) is not None:
            found.append(one)
            if one[0] == b"Z":
                break
        return found

    def login(
        self, user: str = "alice", password: str = PASSWORD, database: str = "randhie", **more: str
    ) -> list[tuple[bytes, bytes]]:
        """Log in by SCRAM, as a client does."""
        self.send(startup(user=user, database=database, **more))
        told = self.receive()
        if told is None or told[0] != b"R":
            return [told] if told else []
        proof = ClientProof(password)
        first = proof.first().encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
        told = self.receive()
        if told is None or told[0] != b"R":
            return [told] if told else []
        self.send(message(b"p", proof.final(told[1][4:].decode()).encode()))
        found = self.until_ready()
        for kind, body in found:
            if kind == b"K":
                self.key = struct.unpack("!II", body)
        return found

    def query(self, sql: str) -> list[tuple[bytes, bytes]]:
        self.send(message(b"Q", sql.encode() + b"\0"))
        return self.until_ready()

    def cancel(self) -> None:
        """End what this client runs, from another connection."""
        with socket.create_connection(self.socket.getpeername(), timeout=WAIT_SECONDS) as other:
            other.sendall(struct.pack("!IIII", 16, 80877102, *self.key))
            other.recv(1)


class ClientProof:
    """A client's side of SCRAM-SHA-256, written down again from RFC 5802."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._bare = "n=,r=abcdefghijklmnop"

    def first(self) -> str:
        return "n,," + self._bare

    def final(self, told: str) -> str:
        import base64
        import hashlib
        import hmac

        given = dict(part.split("=", 1) for part in told.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), base64.b64decode(given["s"]), int(given["i"]))
        client = hmac.digest(salted, b"Client Key", "sha256")
        stored = hashlib.sha256(client).digest()
        without = f"c=biws,r={given['r']}"
        signature = hmac.digest(stored, f"{self._bare},{told},{without}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature, strict=True))).decode()
        return f"{without},p={proof}"


def fields(body: bytes) -> dict[str, str]:
    """The fields of an error or a notice, by their letters."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def errors(found: list[tuple[bytes, bytes]]) -> list[dict[str, str]]:
    return [fields(body) for kind, body in found if kind == b"E"]


def rows(found: list[tuple[bytes, bytes]]) -> list[list[str | None]]:
    """The rows of an answer, all as text."""
    read = []
    for kind, body in found:
        if kind == b"D":
            at, row = 2, list[str | None]()
            for _ in range(struct.unpack("!H", body[:2])[0]):
                length = struct.unpack("!i", body[at : at + 4])[0]
                row.append(None if length < 0 else body[at + 4 : at + 4 + length].decode())
                at += 4 + max(0, length)
            read.append(row)
    return read
