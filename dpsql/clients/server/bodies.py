"""Bodies of HTTP's requests and responses: what a client asks, and answers and errors as JSON or Arrow."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse

from dpsql.clients.dbapi.packed import Json, pack_error, read_columns, read_rows
from dpsql.clients.server.frames import Message, object_of
from dpsql.clients.server.pool import Reply
from dpsql.core.errors import Error, error

OPERATIONS = ("execute", "describe", "prepare", "explain", "price", "certificates")
ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
LONGEST_KEY = 200
FEW_CHUNKS = 4
"""Chunks of an answer that is sent at once."""
MOST_SECONDS = 86_400.0
_KNOWN = ("sql", "parameters", "settings", "accuracy", "seconds", "tickets")
_STATUS = {"5": 403, "6": 403, "8": 400, "9": 500}
_OF_SERVER = ("DPSQL-701", "DPSQL-704", "DPSQL-705", "DPSQL-706", "DPSQL-707", "DPSQL-708", "DPSQL-713")
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_PAGE = {
    **_HEADERS,
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Request of a client, for a worker.

    key      that the client gave it; "" where it gave none
    seconds  that the client allows it; None: as long as the owner does
    """

    sql: str
    content: Message
    key: str
    seconds: float | None


def read(op: str, body: bytes, key: str) -> HttpRequest:
    """Raises 802 for what is no request."""
    found = _object(body)
    unknown = [name for name in found if name not in _KNOWN]
    if unknown:
        raise error(802, f"a request has no field {unknown[0][:40]!r}", hint=f"there are {', '.join(_KNOWN)}")
    sql, settings, seconds = found.get("sql"), found.get("settings", []), found.get("seconds")
    if not isinstance(sql, str) and op != "certificates":
        raise error(802, "a request has no statement", hint='send {"sql": "SELECT ..."}')
    if not isinstance(settings, list) or len(settings) > 50 or not all(isinstance(one, str) for one in settings):
        raise error(802, "settings are a list of texts of SET", hint='send {"settings": ["SET dp_epsilon = 0.2"]}')
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise error(802, "seconds are a number above 0", hint='send {"seconds": 30}')
    if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise error(802, f"a key has at most {LONGEST_KEY} characters of ASCII", hint="send Idempotency-Key: a UUID")
    content: Message = {
        "sql": sql if isinstance(sql, str) else "", "parameters": found.get("parameters", []), "settings": settings,
        "accuracy": found.get("accuracy") is True, "key": key, "tickets": found.get("tickets", []),
    }  # fmt: skip
    return HttpRequest(
        str(content["sql"]), content, key, None if seconds is None else float(min(seconds, MOST_SECONDS))
    )


def _object(body: bytes) -> Message:
    found = object_of(body)
    if found is None:
        raise error(802, "the body of a request is a JSON object", hint='send {"sql": "SELECT ..."}')
    return found


# --- out ----------------------------------------------------------------------------------------------------------------


def told(content: Mapping[str, Json]) -> Response:
    return Response(_text(content), media_type=JSON, headers=_HEADERS)


def html(text: str) -> Response:
    return Response(text, media_type="text/html; charset=utf-8", headers=_PAGE)


def failure(problem: Error, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """An error: its code, message, hint, and the place in the statement as [first character, character after the last]."""
    found = status if status is not None else 503 if problem.code in _OF_SERVER else _STATUS.get(problem.code[6], 422)
    return Response(_text({"error": pack_error(problem)}), found, {**_HEADERS, **(headers or {})}, media_type=JSON)


async def answer(op: str, reply: Reply, accepted: str) -> Response:
    """The answer as a client wants it. Raises 802 for Arrow where the server has none."""
    if op != "execute":
        return told(reply.head)
    if ARROW in accepted:
        return Response(await asyncio.to_thread(_arrow, reply), media_type=ARROW, headers=_HEADERS)
    if len(reply.chunks) <= FEW_CHUNKS:
        return Response(b"".join(_json(reply)), media_type=JSON, headers=_HEADERS)
    return StreamingResponse(_json(reply), media_type=JSON, headers=_HEADERS)


def _json(reply: Reply) -> Iterator[bytes]:
    """One object: all that is told of the answer, then its rows, and their intervals where these were asked for."""
    yield _text(reply.head).encode()[:-1] + b', "rows": ['
    between, intervals = b"", list[bytes]()
    for rows, accuracy in reply.parts():
        if rows:
            yield between + _text(rows).encode()[1:-1]
            between = b",\n"
        if accuracy:
            intervals.append(_text(accuracy).encode()[1:-1])
    yield b"]"
    if intervals:
        yield b', "accuracy": [' + b",\n".join(intervals) + b"]"
    yield b"}\n"


def _arrow(reply: Reply) -> bytes:
    """An Arrow stream, whose schema's metadata tell the rest, as JSON, under `dpsql`."""
    from dpsql.clients.dbapi.frames import arrow_table

    columns = read_columns(reply.head.get("columns"))
    rows = [row for part in reply.rows() for row in read_rows(columns, part)]
    table = arrow_table(columns, rows)
    table = table.replace_schema_metadata({"dpsql": _text(reply.head)})
    import pyarrow

    out = io.BytesIO()
    with pyarrow.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _text(content: object) -> str:
    return json.dumps(content, ensure_ascii=True, allow_nan=False)
