"""Requests of HTTP, right ones and ones that are changed, cut, lengthened and made up, with a token and without."""

from __future__ import annotations

import json
import random
import socket

from tests.support.fuzzed import Fuzzed, changed, processes, resident
from tests.support.served import Served

PATHS = (
    "/", "/health", "/metrics", "/v1/randhie/execute", "/v1/randhie/describe", "/v1/randhie/prepare", "/v1/randhie/explain",
    "/v1/randhie/price", "/v1/randhie/certificates", "/v1/randhie/schema", "/v1/randhie/statements/x", "/v1/other/execute", "/v1//",
    "*", "/v1/randhie/execute?x=%00", "/%2e%2e/", "//", "/v1/randhie/\u00e9",
)  # fmt: skip
BODIES = (
    {"sql": "SELECT COUNT(*) FROM plan"}, {"sql": "SELECT SUM(family_size) FROM person_year"}, {"sql": "SELECT ?", "parameters": [1]},
    {"sql": "SELEC"}, {"sql": ""}, {"sql": "SET dp_epsilon = 0.2"}, {"sql": "SHOW TABLES", "settings": ["SET dp_epsilon = 0.2"]},
    {"sql": "SELECT 1", "parameters": {"a": {"date": "2024-02-30"}}}, {"tickets": ["x y", 1, None]}, {"sql": "\ud800"},
    {"sql": "SELECT 1", "parameters": [[[[1]]]]}, {}, [], None, 1, "x", {"sql": "EXPLAIN SELECT COUNT(*) FROM person"},
    {"sql": "SELECT 1", "seconds": 1e308},
)  # fmt: skip
"""None of them is charged."""


def fuzz(server: Served, count: int, seed: int, token: str) -> Fuzzed:
    """Say so many requests; a problem is as in tests.support.fuzzed."""
    chance, found, begun, memory = random.Random(seed), Fuzzed(), processes(server), resident(server)
    while found.messages < count:
        found.connections += 1
        found.messages += _connection(server, chance, token)
    found.problems += [line for line in server.lines if "invariant" in line or "Traceback" in line or "Error" in line]
    if begun - processes(server):
        found.problems.append("a process ended")
    if resident(server) > memory + 100_000_000:
        found.problems.append(f"the front grew from {memory:,} to {resident(server):,} bytes")
    if b" 200 " not in _said(server, _request("GET", "/health", None, b"")):
        found.problems.append("it answers no more")
    return found


def _connection(server: Served, chance: random.Random, token: str) -> int:
    """A few requests on one connection, up to where the server has enough of it. Output: requests said."""
    said = 0
    with socket.create_connection(("127.0.0.1", server.http), timeout=60) as one:
        for _ in range(chance.randint(1, 6)):
            said += 1
            try:
                one.sendall(changed(_made_up(chance, token), chance))
                if chance.random() < 0.5:
                    one.settimeout(0.5)
                    one.recv(65536)
            except OSError:
                break
    return said


def _made_up(chance: random.Random, token: str) -> bytes:
    body = b"" if chance.random() < 0.2 else json.dumps(chance.choice(BODIES)).encode()
    if chance.random() < 0.1:
        body = chance.randbytes(chance.randrange(200))
    method = chance.choice(("GET", "POST", "POST", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "X", "PRI"))
    who = chance.choice((token, token, None, "dpsql_x", "\u00ff", "x" * 5000))
    return _request(method, chance.choice(PATHS), who, body, chance)


def _request(method: str, path: str, token: str | None, body: bytes, chance: random.Random | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    if chance is not None:
        more = (
            "Idempotency-Key: k", "Transfer-Encoding: chunked", "Expect: 100-continue", "Upgrade: websocket", "Connection: close",
            "Accept: x", "Accept: application/vnd.apache.arrow.stream", "Content-Length: 7", "X: " + "y" * 20_000,
            "Authorization: Basic !!",
        )  # fmt: skip
        lines += chance.sample(more, chance.randrange(3))
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + body


def _said(server: Served, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.http), timeout=60) as one:
        one.sendall(request)
        return one.recv(65536)
