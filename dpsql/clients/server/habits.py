"""Habits of clients: transactions, which are nothing here, and settings of PostgreSQL's, of which the usual are taken.

Why     drivers and tools say these when they log in, and between statements; nothing of it changes an answer
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

VERSION = "15.0"
VERSION_NUMBER = "150000"
"""Of PostgreSQL, as clients are told: what they then expect is what is here."""
Row = tuple[str, ...]


@dataclass(slots=True)
class ClientState:
    """State of one client between statements.

    settings    texts of SET dp_..., by the option's name: sent along with each statement
    parameters  PostgreSQL's settings that were changed, by their names in lower case
    """

    user: str
    dataset: str
    in_transaction: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str | None:
        """The value of a setting of PostgreSQL's; None where there is no such setting."""
        if name in self.parameters:
            return self.parameters[name]
        return {"session_authorization": self.user}.get(name, _DEFAULTS.get(name))

    @property
    def timeout(self) -> float | None:
        """[seconds] that the client allows a statement; None: as long as the owner does."""
        return milliseconds(self.parameters.get("statement_timeout", "0")) / 1000 or None

    @property
    def quiet(self) -> bool:
        """True if the client wants no notices."""
        return self.value("client_min_messages") in ("warning", "error", "fatal", "panic")


@dataclass(frozen=True, slots=True)
class Done:
    """A habit that was followed.

    tag      what the client is told
    shown    the column and the value of SHOW
    changed  a setting that clients are told of
    """

    tag: str
    shown: tuple[str, str] | None = None
    changed: tuple[str, str] | None = None


_DEFAULTS = {
    "server_version": f"{VERSION} (dpsql)", "server_version_num": VERSION_NUMBER, "server_encoding": "UTF8", "client_encoding": "UTF8",
    "datestyle": "ISO, MDY", "integer_datetimes": "on", "standard_conforming_strings": "on", "timezone": "UTC",
    "intervalstyle": "postgres", "is_superuser": "off", "application_name": "", "in_hot_standby": "off",
    "default_transaction_read_only": "on", "transaction_read_only": "on", "default_transaction_isolation": "repeatable read",
    "transaction_isolation": "repeatable read", "default_transaction_deferrable": "off", "extra_float_digits": "1",
    "client_min_messages": "notice", "statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
    "search_path": "public", "bytea_output": "hex", "row_security": "on", "jit": "off", "max_identifier_length": "63",
    "escape_string_warning": "on", "synchronize_seqscans": "on", "xmloption": "content", "lc_messages": "C",
    "default_table_access_method": "heap", "block_size": "8192", "idle_session_timeout": "0",
}  # fmt: skip
REPORTED = ("server_version", "server_encoding", "client_encoding", "DateStyle", "integer_datetimes", "standard_conforming_strings",
            "TimeZone", "IntervalStyle", "is_superuser", "session_authorization", "application_name", "in_hot_standby",
            "default_transaction_read_only")  # fmt: skip
"""Settings that a client is told of when it has logged in, and when they change."""


def _any(value: str) -> bool:
    return len(value) < 200


def _utf8(value: str) -> bool:
    return value.lower().replace("-", "") in ("utf8", "unicode", "sqlascii", "sql_ascii")


def _on(value: str) -> bool:
    return value.lower() in ("on", "true", "1", "yes")


_MILLISECONDS = re.compile(r"(\d{1,10})\s*(us|ms|s|min|h|d)?")
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
_ACCEPTED: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(("extra_float_digits", "application_name", "search_path", "lock_timeout", "row_security", "jit", "lc_messages",
                     "idle_in_transaction_session_timeout", "idle_session_timeout", "client_min_messages", "escape_string_warning",
                     "synchronize_seqscans", "xmloption", "default_table_access_method", "transaction_isolation",
                     "default_transaction_isolation", "default_transaction_deferrable", "options"), _any),
    "client_encoding": _utf8,
    "standard_conforming_strings": _on,
    "transaction_read_only": _on,
    "default_transaction_read_only": _on,
    "datestyle": lambda value: value.upper().startswith("ISO"),
    "timezone": lambda value: value.upper() in ("UTC", "GMT", "ETC/UTC", "DEFAULT", "LOCAL") or len(value) < 64,
    "intervalstyle": lambda value: value.lower() == "postgres",
    "bytea_output": lambda value: value.lower() == "hex",
    "statement_timeout": lambda value: _MILLISECONDS.fullmatch(value) is not None,
}  # fmt: skip
_COMMENT = re.compile(r"\s*(?:--[^\n]*\n|/\*.*?\*/\s*)", re.DOTALL)
_FLAGS = re.IGNORECASE | re.DOTALL
_NAME = r"(?:\w+|\"[^\"]+\")"
_WORK, _NO_CHAIN = r"(?:\s+(?:WORK|TRANSACTION))?", r"(?:\s+AND\s+NO\s+CHAIN)?"
_HABITS: tuple[tuple[re.Pattern[str], str, bool | None], ...] = tuple(
    (re.compile(pattern, _FLAGS), tag, within)
    for pattern, tag, within in (
        (rf"(?:BEGIN{_WORK}|START\s+TRANSACTION)(?:\s+[A-Z ,]*)?", "BEGIN", True),
        (rf"(?:COMMIT|END){_WORK}{_NO_CHAIN}", "COMMIT", False),
        (rf"(?:ROLLBACK|ABORT){_WORK}{_NO_CHAIN}", "ROLLBACK", False),
        (rf"ROLLBACK{_WORK}\s+TO(?:\s+SAVEPOINT)?\s+{_NAME}", "ROLLBACK", None),
        (rf"SAVEPOINT\s+{_NAME}", "SAVEPOINT", None),
        (rf"RELEASE(?:\s+SAVEPOINT)?\s+{_NAME}", "RELEASE", None),
        (rf"DEALLOCATE\s+(?:PREPARE\s+)?{_NAME}", "DEALLOCATE", None),
        (rf"CLOSE\s+{_NAME}", "CLOSE CURSOR", None),
        (r"UNLISTEN\s+(?:\*|\w+)", "UNLISTEN", None),
        (r"DISCARD\s+\w+", "DISCARD ALL", None),
        (r"SET\s+(?:SESSION\s+CHARACTERISTICS\s+AS\s+|LOCAL\s+)?TRANSACTION\s+[A-Z ,]+", "SET", None),
    )
)
"""Statements that change nothing here, what is told of them, and whether a transaction is open afterwards; None: as before."""
_SET = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?(?:(TIME\s+ZONE|NAMES)\s+|(\w+)\s*(?:=|\s+TO\s)\s*)(.+)", _FLAGS)
_RESET = re.compile(r"RESET\s+(\w+)", _FLAGS)
_SHOW = re.compile(r"SHOW\s+(\w+(?:\s+\w+){0,2})", _FLAGS)
_LONG_NAMES = {"time zone": "timezone", "names": "client_encoding", "transaction isolation level": "transaction_isolation",
               "session authorization": "session_authorization"}  # fmt: skip


def milliseconds(text: str) -> float:
    """A time as PostgreSQL's settings write it; without a unit it is in milliseconds.

    >>> milliseconds("2s"), milliseconds("150")
    (2000.0, 150.0)
    """
    found = _MILLISECONDS.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2] or "ms"] if found is not None else 0.0


def plain(sql: str) -> str:
    """A statement without the comments before it and the semicolon behind it.

    Why  what is left is copied once, however many comments there are: whoever sends a million of them holds up nobody else
    """
    at = 0
    while (found := _COMMENT.match(sql, at)) is not None:
        at = found.end()
    return sql[at:].strip().rstrip(";").strip()


def habit(sql: str, client: ClientState) -> Done | None:
    """Follow a habit; None for any other statement, which is the dataset's."""
    text = plain(sql)
    if len(text) > 1000:
        return None
    for pattern, tag, within in _HABITS:
        if pattern.fullmatch(text):
            client.in_transaction = client.in_transaction if within is None else within
            if tag == "DISCARD ALL":
                _forget(client)
            return Done(tag)
    return _setting(text, client)


def _setting(text: str, client: ClientState) -> Done | None:
    if (found := _SET.fullmatch(text)) is not None:
        name = re.sub(r"\s+", " ", (found[1] or found[2]).lower())
        return _set(_LONG_NAMES.get(name, name), found[3].strip(), client)
    if (found := _RESET.fullmatch(text)) is not None:
        name = found[1].lower()
        if name == "all":
            _forget(client)
        elif name not in _ACCEPTED:
            return None
        was = client.parameters.pop(name, None)
        return Done("RESET", changed=None if was is None else _changed(name, client))
    if (found := _SHOW.fullmatch(text)) is not None:
        name = re.sub(r"\s+", " ", found[1].lower())
        value = client.value(_LONG_NAMES.get(name, name))
        return None if value is None else Done("SHOW", shown=(_LONG_NAMES.get(name, name), value))
    return None


def _set(name: str, value: str, client: ClientState) -> Done | None:
    bare = ", ".join(part.strip().strip("'\"") for part in value.split(","))
    accepted = _ACCEPTED.get(name)
    if accepted is None or not accepted(bare):
        return None
    if bare.lower() == "default":
        client.parameters.pop(name, None)
    elif name == "datestyle":
        client.parameters[name] = "ISO, MDY"
    elif name not in ("timezone", "client_encoding"):
        # moments have no zone here, and all text is UTF-8: what is shown says so
        client.parameters[name] = bare
    return Done("SET", changed=_changed(name, client))


def _changed(name: str, client: ClientState) -> tuple[str, str] | None:
    shown = next((one for one in REPORTED if one.lower() == name), None)
    return None if shown is None else (shown, client.value(name) or "")


def _forget(client: ClientState) -> None:
    client.settings.clear()
    client.parameters.clear()
