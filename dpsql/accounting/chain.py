"""The chain that ties each charge to all before it, and the head that is remembered beside the ledger.

A link is a keyed hash of the link before and of what the charge's row holds. So a row that is changed, left out or put in breaks the
chain from there on. A ledger that is replaced as a whole by an older copy has a whole chain: it is noticed where a newer head is known,
in the process that wrote it, in the file of the head, or from a certificate.
Limit: the key is in the ledger itself. Whoever can write the file, knows its layout and means to deceive can make another whole chain.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LINK_BYTES = 32
FIRST = bytes(LINK_BYTES)
SUFFIX = ".head"
_LINK = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Head:
    """The newest charge that is known: its number, and its link as hexadecimal."""

    charge: int
    link: str


NO_HEAD = Head(0, FIRST.hex())


def link(secret: bytes, before: bytes, row: Sequence[object]) -> bytes:
    """The link of a charge.

    before  the link of the charge before, FIRST for the first one
    row     what the charge's row holds, its number first: integers, text and NULL
    """
    keyed = hashlib.blake2b(before, key=secret, digest_size=LINK_BYTES)
    keyed.update(json.dumps(list(row), separators=(",", ":")).encode("ascii"))
    return keyed.digest()


def sealed(secret: bytes, *parts: str) -> bytes:
    """A keyed hash of some texts, so that one of them cannot be changed without the others."""
    return hashlib.blake2b(json.dumps(parts).encode("ascii"), key=secret, digest_size=16).digest()


def certified(text: str) -> list[Head] | None:
    """The places in the ledger that certificates name: one, or a list of them, as JSON; None where the text is none of them."""
    try:
        found = json.loads(text)
        each = found if isinstance(found, list) else [found]
        heads = [Head(one["ledger"]["charge"], one["ledger"]["link"]) for one in each]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    right = all(type(head.charge) is int and head.charge > 0 and _LINK.fullmatch(str(head.link)) for head in heads)
    return heads if right else None


def head_file(ledger: Path) -> Path:
    """Path of the file that remembers the head of a ledger."""
    return ledger.with_name(ledger.name + SUFFIX)


def read_head(path: Path) -> Head | None:
    """The head that is remembered; NO_HEAD where none is, None where it cannot be read as one. Raises OSError."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read().decode("ascii")
    except FileNotFoundError:
        return NO_HEAD
    except UnicodeDecodeError:
        return None
    charge, space, digits = text.strip().partition(" ")
    if not space or not charge.isdecimal() or len(charge) > 18 or not _LINK.fullmatch(digits):
        return None
    return Head(int(charge), digits)


def write_head(path: Path, head: Head) -> None:
    """Remember a head. What goes wrong is no error: an older one stays, and it is as true."""
    draft = path.with_name(f".head-{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        try:
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.write(descriptor, f"{head.charge} {head.link}\n".encode("ascii"))
                os.fsync(descriptor)  # else a crash of the machine may leave an empty one
            finally:
                os.close(descriptor)
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
