"""Users of a server: a file that only its owner reads, with a verifier for each name."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from dpsql.clients.server.scram import Verifier
from dpsql.core.errors import error
from dpsql.schema.model import Schema
from dpsql.session.opening import default_ledger

SUFFIX = ".users"
SHORTEST = 8
"""[characters] of a password."""


def users_file(schema: Schema) -> Path:
    """Path of the users of one dataset: beside its ledger."""
    ledger = default_ledger(schema)
    return ledger.with_name(ledger.name + SUFFIX)


def read_users(path: Path) -> dict[str, str]:
    """Names and the texts of their verifiers; none where the file is not there. Raises 802 for any other file."""
    return read_private(path, "users", lambda text: Verifier.read(text) is not None)


def read_private(path: Path, what: str, is_sound: Callable[[str], bool]) -> dict[str, str]:
    """A file of texts by names, for its owner's eyes; none where it is not there. Raises 802 for any other file.

    what      it holds, for the error
    is_sound  whether a text is one of them
    """
    problem = "cannot be read"
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                problem = "can be read by others"
                raise OSError
            found = json.load(file)
        if isinstance(found, dict) and all(isinstance(text, str) and is_sound(text) for text in found.values()):
            return found
        problem = f"is no file of {what}"
    except FileNotFoundError:
        return {}
    except ValueError:
        problem = f"is no file of {what}"
    except OSError:
        pass
    raise error(802, f"{path} {problem}", hint="write it with `dpsql user add`, and see that its mode is 0600")


def write_private(path: Path, content: dict[str, str]) -> None:
    """Write the file whole, for its owner's eyes. Raises 802."""
    draft = path.with_name(f".users-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1, sort_keys=True)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            return
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
    except OSError:
        pass
    raise error(802, f"{path} cannot be written", hint="see that its folder is there and may be written to")


def add(path: Path, schema: Schema, name: str, password: str) -> None:
    """Let an analyst of a schema log in with a password. Raises 802, 803."""
    require_analyst(schema, name)
    if len(password) < SHORTEST:
        raise error(802, f"the password is shorter than {SHORTEST} characters", hint="choose a longer one")
    write_private(path, {**read_users(path), name: str(Verifier.of(password))})


def remove(path: Path, name: str) -> None:
    """Let a user log in no more. Raises 802, 803."""
    users = read_users(path)
    if name not in users:
        raise error(803, f"{name!r} is no user in {path}", hint="`dpsql user list` shows them")
    del users[name]
    write_private(path, users)


def require_served(schema: Schema) -> None:
    """Raise 803 where a schema declares no analysts: nobody could say who asks."""
    if schema.analysts is None:
        what = f"{schema.name} declares no [analysts], and so is not served: a user of the server is an analyst of the schema"
        raise error(803, what, hint="declare them, such as [analysts.alice] with epsilon = 1.0")


def require_analyst(schema: Schema, name: str) -> None:
    """Raise 803 where a name is no declared analyst of a schema."""
    require_served(schema)
    declared = [analyst.name for analyst in schema.analysts or ()]
    if name not in declared:
        what = f"{name!r} is not a declared analyst of {schema.name}"
        raise error(803, what, hint=f"declared are {', '.join(declared)}")
