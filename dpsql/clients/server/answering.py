"""Requests of the front, answered by sessions on one dataset: a session an analyst, with the settings of whichever client asks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from dpsql.clients.dbapi.declared_json import pack_schema, shown_to
from dpsql.clients.dbapi.packed import Json, pack, pack_error, packed_rows, read_parameters
from dpsql.clients.server import reporting
from dpsql.clients.server.catalog import CatalogTables
from dpsql.clients.server.frames import Message
from dpsql.core.errors import Error, error
from dpsql.mechanisms.prices import nominal
from dpsql.plan.charges import Receipt
from dpsql.planner.parse import Setting, parse
from dpsql.schema.toml import read_schema
from dpsql.session.commons import Commons
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session

MOST_SESSIONS = 32
"""Sessions of analysts that are kept open."""
Send = Callable[[Message], None]
Columns = Sequence[tuple[str, str]]


class Answering:
    """Answers the requests of one worker."""

    def __init__(self, schema: Path) -> None:
        self._schema = read_schema(schema)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._set: dict[str, tuple[str, ...]] = {}
        """Settings that the sessions have now."""
        self._catalogs: dict[str, CatalogTables] = {}
        self._current: Session | None = None
        self._commons = Commons()

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.close()
        self._commons.close()

    def shape(self) -> Message:
        """Open the data for the first analyst, and tell what is declared; or why it cannot be opened."""
        try:
            self._session(self._first)
        except Error as problem:
            return {"error": pack_error(problem)}
        except IndexError:
            return {"error": pack_error(error(803, "the schema declares no analysts"))}
        return {"name": self._schema.name}

    @property
    def _first(self) -> str:
        """The first declared analyst."""
        return (self._schema.analysts or ())[0].name

    def interrupt(self) -> None:
        current = self._current
        if current is not None:
            current.interrupt()

    def answer(self, asked: Message, send: Send) -> None:
        """Answer one request. What goes wrong is an error of dpsql's own, in which no value of the data stands."""
        problem: Error
        try:
            # an owner has no session: what is theirs is read beside the first analyst's
            analyst = self._first if asked.get("owner") is True else str(asked.get("analyst"))
            self._current = self._session(analyst)
            self._settle(analyst, asked.get("settings"))
            request = self._requests.get(str(asked.get("op")))
            if request is None:
                raise error(802, "the server has no such request")
            request(self, asked, send)
            return
        except Error as raised:
            problem = raised
        finally:
            self._current = None
        send({"error": pack_error(problem)})

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _session(self, analyst: str) -> Session:
        if analyst not in self._sessions:
            self._sessions[analyst] = open_session(self._schema, analyst, None, commons=self._commons, keeps_head=False)
            self._set[analyst] = ()
            if len(self._sessions) > MOST_SESSIONS:
                name, oldest = self._sessions.popitem(last=False)
                del self._set[name]
                if name in self._catalogs:
                    self._catalogs.pop(name).close()
                oldest.close()
        self._sessions.move_to_end(analyst)
        return self._sessions[analyst]

    def _settle(self, analyst: str, settings: Json) -> None:
        """Give a session the settings of the client who asks: texts of SET, each with its own name. Raises 802 for any other statement,
        which would be charged beside the one that is asked."""
        wanted = tuple(map(str, settings)) if isinstance(settings, list) else ()
        if self._set[analyst] == wanted:
            return
        if not all(isinstance(parse(text), Setting) for text in wanted):
            raise error(802, "settings are texts of SET", hint="write SET dp_epsilon = 0.2")
        session = self._sessions[analyst]
        session.reset()
        # what comes in between leaves nothing half set
        self._set[analyst] = ("",)
        for text in wanted:
            session.execute(text)
        self._set[analyst] = wanted

    # --- requests -------------------------------------------------------------------------------------------------------

    def _execute(self, asked: Message, send: Send) -> None:
        session = self._opened()
        found = self._of_catalog(asked)
        if found is not None:
            send({"columns": _columns(found[0]), "count": len(found[1]), "more": True})
            for rows in packed_rows(found[1]):
                send({"rows": list(rows), "more": True})
            send({})
            return
        parameters = read_parameters(asked.get("parameters"))
        answer = session.execute(str(asked.get("sql")), parameters, key=str(asked.get("key") or ""))
        told = packed_answer(answer)
        told["tickets"] = [self._ticket(asked, one) for one in answer.fingerprints]
        if not answer.columns:
            setting = parse(str(asked.get("sql")), parameters)
            assert isinstance(setting, Setting)
            told["setting"] = [setting.name, setting.options is not None]
            # it is the client's, who sends it along from now on
            session.reset()
            self._set[str(asked.get("analyst"))] = ()
        if asked.get("ends") is True and answer.columns:
            answer = answer.with_ends()
            told["columns"] = _columns(answer.columns)
        send({**told, "more": True})
        bars = answer.accuracy if asked.get("accuracy") is True else None
        at = 0
        for rows in packed_rows(answer.rows):
            part: Message = {"rows": list(rows), "more": True}
            if bars is not None:
                part["accuracy"] = [
                    [None if c is None else [pack(c.low), pack(c.high), c.level] for c in row]
                    for row in bars[at : at + len(rows)]
                ]
            at += len(rows)
            send(part)
        send({})

    def _catalog(self, asked: Message) -> CatalogTables | None:
        """The catalog's tables, where a client of PostgreSQL's protocol asks."""
        if asked.get("catalog") is not True:
            return None
        analyst = str(asked.get("analyst"))
        if analyst not in self._catalogs:
            self._catalogs[analyst] = CatalogTables(self._opened().schema, analyst)
        return self._catalogs[analyst]

    def _of_catalog(self, asked: Message) -> tuple[Columns, list[tuple[object, ...]]] | None:
        """The answer of a question about the catalog; None for any other statement."""
        tables = self._catalog(asked)
        if tables is None:
            return None
        return tables.answer(str(asked.get("sql")), list(read_parameters(asked.get("parameters"))))

    def _describe(self, asked: Message, send: Send) -> None:
        found = self._of_catalog(asked)
        columns = (
            found[0]
            if found is not None
            else self._opened().describe(str(asked.get("sql")), read_parameters(asked.get("parameters")))
        )
        send({"columns": _columns(columns)})

    def _prepare(self, asked: Message, send: Send) -> None:
        self._shape(asked, send, lambda sql: self._opened().prepare(sql))

    def _types(self, asked: Message, send: Send) -> None:
        self._shape(asked, send, lambda sql: (self._opened().parameter_types(sql), ()))

    def _shape(self, asked: Message, send: Send, of_session: Callable[[str], tuple[Sequence[object], Columns]]) -> None:
        """Tell the types of a statement's parameters, and its columns."""
        sql, tables = str(asked.get("sql")), self._catalog(asked)
        shape = tables.shape(sql) if tables is not None else None
        types, columns = ([None] * shape[0], shape[1]) if shape is not None else of_session(sql)
        send({"parameters": [None if one is None else str(one) for one in types], "columns": _columns(columns)})

    def _explain(self, asked: Message, send: Send) -> None:
        send({"text": self._opened().explain(str(asked.get("sql")), read_parameters(asked.get("parameters")))})

    def _price(self, asked: Message, send: Send) -> None:
        receipt, releases = self._opened().price(str(asked.get("sql")), read_parameters(asked.get("parameters")))
        send({"price": packed_receipt(receipt, releases=releases)})

    def _told(self, asked: Message, send: Send) -> None:
        """Tell a client that opens a connection what is declared."""
        session, analyst = self._opened(), str(asked.get("analyst"))
        declared = pack_schema(shown_to(session.schema, analyst))
        send({"analyst": analyst, "schema": declared, "told": list(session.told), "in_memory": session.in_memory})

    def _certificates(self, asked: Message, send: Send) -> None:
        """Certificates of releases that this analyst was given: each ticket says so, since who could name any release would learn which
        ones others asked."""
        found = asked.get("tickets")
        tickets = [str(one) for one in found] if isinstance(found, list) else []
        names = [one.rpartition(" ")[0] for one in tickets]
        own = [name for name, one in zip(names, tickets, strict=True) if self._ticket(asked, name) == one]
        # exact amounts are text in them already
        send({"certificates": self._opened().certificates(own)})  # type: ignore[dict-item]

    def _ticket(self, asked: Message, fingerprint: str) -> str:
        mark = self._opened().ticket(f"{asked.get('analyst')} {fingerprint}")
        return f"{fingerprint} {mark}"

    def _report(self, asked: Message, send: Send) -> None:
        session, analyst = self._opened(), str(asked.get("analyst"))
        if asked.get("owner") is True:
            send(session.with_ledger(lambda ledger: reporting.of_owner(session.schema, ledger, session)))
        else:
            send(reporting.of_analyst(session.schema, analyst, session))

    def _opened(self) -> Session:
        assert self._current is not None
        return self._current

    _requests: ClassVar[dict[str, Callable[[Answering, Message, Send], None]]] = {
        "execute": _execute,
        "describe": _describe,
        "prepare": _prepare,
        "types": _types,
        "explain": _explain,
        "price": _price,
        "schema": _told,
        "certificates": _certificates,
        "report": _report,
    }


def _columns(columns: Columns) -> Json:
    return [[name, sqltype] for name, sqltype in columns]


def packed_answer(answer: Answer) -> Message:
    """All of an answer but its rows."""
    return {
        "columns": _columns(answer.columns),
        "count": len(answer.rows),
        "price": packed_receipt(answer.receipt, answer.cached, answer.releases, answer.as_of),
        "notes": list(answer.notes),
        "remarks": list(answer.remarks),
        "errors": [None if e is None else pack(e) for e in answer.errors()]
        if answer.releases or answer.cached
        else None,
        "noisy": list(answer.accuracy.noisy),
    }


def packed_receipt(receipt: Receipt, cached: bool = False, releases: int = 0, as_of: str = "") -> Message:
    loss, left = receipt.loss, receipt.remaining
    return {
        "epsilon": str(nominal(loss)), "delta": str(loss.delta), "rho": str(loss.rho),
        "loss": [None if one is None else str(one) for one in (loss.epsilon, loss.delta, loss.squares, loss.rho, loss.mu_squared)],
        "remaining": str(left.epsilon), "remaining_delta": str(left.delta),
        "cached": cached, "releases": releases, "as_of": as_of, "statements": receipt.statements,
    }  # fmt: skip
