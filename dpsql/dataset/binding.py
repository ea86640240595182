"""binding: which ledger counts what is asked of some data, so that no other one begins with a full budget unnoticed.

A *mark* beside the file that holds the units names the ledger by its random id; where that folder cannot be written, it is kept in the
owner's state folder ($XDG_STATE_HOME/dpsql, or ~/.local/state/dpsql). It is of the file and of the unit's column, so that another
name of the dataset or of a table changes nothing. Contents that were approved are remembered in the state folder as hashes under a key
that is kept there: a copy of the data with another ledger is told.

Why     another ledger is another budget for the same people
Limit   whoever may write beside the data can remove the mark; known-limits.md says what else remains
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.problems import shown
from dpsql.core.errors import Error, error
from dpsql.engines.base import UnitPlace
from dpsql.engines.registry import kind_for
from dpsql.schema.model import ROW, Schema

IN_MEMORY = "the ledger is in memory: what is spent is forgotten when the connection is closed, and the next one spends it again"
UNBOUND = "no mark of the ledger could be written, neither beside the data nor in the state folder: another ledger would not be noticed"
SUFFIX = ".dpsql"
_LARGEST = 100_000  # bytes of a mark
_NAME = 40  # characters of a file's name in that of its mark


@dataclass(frozen=True, slots=True)
class Mark:
    """A ledger, as what is bound to it remembers it: its id, and where it was then."""

    ledger: str
    path: str


def require(schema: Schema, ledger: Ledger) -> None:
    """Raise 714 where the data is bound to another ledger; it costs a few looks at files, and reads no data."""
    if ledger.store.file is None:
        return
    for place in _places(schema):
        found = _found(place, schema)
        if found is not None and found.ledger != ledger.id:
            raise _other(ledger, found)


def mark(schema: Schema, ledger: Ledger, *, anew: bool = False) -> tuple[str, ...]:
    """Bind data to its ledger. Output: what has to be told of that.

    anew    in place of any other ledger: the owner says so
    Errors  714 the data is bound to another ledger; with `anew`: and its mark cannot be replaced
    """
    if ledger.store.file is None:
        return ()
    own, told = Mark(ledger.id, str(ledger.store.file)), []
    for place in _places(schema):
        found = _found(place, schema)
        if found is None or (anew and found.ledger != own.ledger):
            written = _write(_beside(place, schema), own, anew) or _write(_aside(place, schema), own, anew)
            told += [] if written else [UNBOUND]
    require(schema, ledger)
    return tuple(dict.fromkeys(told))


def copies(schema: Schema, ledger: Ledger, digests: bytes, *, anew: bool = False) -> tuple[str, ...]:
    """Remember in the state folder which ledger counts for these contents. Output: what has to be told where that is another one.

    digests  of the files
    anew     this ledger takes the place of another one
    """
    place = _kept(f"content\n{_unit(schema)}\n".encode("utf-8", "backslashreplace") + digests)
    if ledger.store.file is None or place is None:
        return ()
    _write(place, Mark(ledger.id, str(ledger.store.file)), anew)
    found = _read(place)
    if found is None or found.ledger == ledger.id:
        return ()
    both = "what is spent in both adds up, and neither knows of the other"
    return (f"the same data has another ledger, {shown(found.path)}: {both}",)


# --- places ---------------------------------------------------------------------------------------------------------------


def _places(schema: Schema) -> tuple[UnitPlace, ...]:
    """Places of the units: those of the unit's table, or, where each row is one, of every private table."""
    return kind_for(schema).places(schema)


def _found(place: UnitPlace, schema: Schema) -> Mark | None:
    """The mark of a place, wherever it is kept."""
    return _read(_beside(place, schema)) or _read(_aside(place, schema))


def _unit(schema: Schema) -> str:
    return schema.privacy.unit_column or ROW


def _beside(place: UnitPlace, schema: Schema) -> Path | None:
    """The mark beside a file; None where the units are in none."""
    file = place.beside
    if file is None:
        return None
    digits = hashlib.sha256(f"{file.name}\n{_unit(schema)}".encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return file.with_name(f".{file.name[:_NAME]}.{digits}{SUFFIX}")


def _aside(place: UnitPlace, schema: Schema) -> Path | None:
    """The same in the state folder; None where there is no key to name it with."""
    return _kept(f"mark\n{place.text}\n{_unit(schema)}".encode("utf-8", "backslashreplace"))


def state_folder() -> Path | None:
    """The owner's state folder; None where there is no home."""
    named = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "dpsql"
    with contextlib.suppress(RuntimeError):
        return Path.home() / ".local" / "state" / "dpsql"
    return None


def _kept(what: bytes) -> Path | None:
    """Path in the state folder, under a name that says nothing without its key."""
    folder = state_folder()
    if folder is None:
        return None
    key = folder / "key"
    with contextlib.suppress(OSError):
        if not key.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _put(key, secrets.token_hex(32).encode("ascii"), anew=False, mode=0o600)
        return folder / hmac.new(key.read_bytes(), what, hashlib.sha256).hexdigest()
    return None


def _other(ledger: Ledger, found: Mark) -> Error:
    if found.path and Path(found.path) == Path(ledger.store.path).resolve():
        return error(
            714,
            f"the ledger {shown(found.path)}, which counts what was asked of the data, is there no more: this one is new",
            hint="put it back; to begin with nothing spent, the owner runs `dpsql check SCHEMA --new-ledger`",
        )
    bound = f"the ledger {shown(found.path)}" if found.path else "another ledger"
    return error(
        714,
        f"the data is bound to {bound}, not to {shown(ledger.store.path)}",
        hint="open it with that one; to begin with nothing spent, the owner runs `dpsql check SCHEMA --new-ledger`",
    )


# --- files ----------------------------------------------------------------------------------------------------------------


def _read(place: Path | None) -> Mark | None:
    """The mark at a place; None where there is none. One that says nothing is of no ledger."""
    if place is None:
        return None
    try:
        with open(place, encoding="utf-8") as file:
            found = json.loads(file.read(_LARGEST))
        return Mark(str(found["ledger"]), str(found["path"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return Mark("", "")


def _write(place: Path | None, mark: Mark, anew: bool) -> bool:
    """True if a mark is there now, this one or an earlier one."""
    if place is None:
        return False
    try:
        text = json.dumps({"ledger": mark.ledger, "path": mark.path}) + "\n"
        _put(place, text.encode("ascii"), anew, 0o644)
    except OSError:
        return not anew and place.exists()
    return True


def _put(place: Path, content: bytes, anew: bool, mode: int) -> None:
    """Write a file whole and durably, or not at all; the first of two stays, unless it is to be another. Raises OSError."""
    draft = place.with_name(f".draft-{secrets.token_hex(8)}{SUFFIX}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        try:
            os.write(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if anew:
            os.replace(draft, place)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(draft, place)
    finally:
        draft.unlink(missing_ok=True)
