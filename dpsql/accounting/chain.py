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
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LINK_BYTES = 32
FIRST = bytes(LINK_BYTES)
SUFFIX = ".head"
_LINE_BYTES = 84
"""Of the line in the file of the head: the largest number, the link, and what parts them."""
_LINK = re.compile(r"[0-9a-f]{64}")
WAIT_SECONDS = 2.0
"""The most that a reader of the head waits for who writes it."""
_PAUSE_SECONDS = 0.002


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
            _wait_for_writer(file.fileno())
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
    line = f"{head.charge} {head.link}".ljust(_LINE_BYTES - 1).encode("ascii") + b"\n"
    if _overwritten(path, line):
        return
    draft = path.with_name(f".head-{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        try:
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.write(descriptor, line)
                os.fsync(descriptor)  # else a crash of the machine may leave an empty one
            finally:
                os.close(descriptor)
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def _overwritten(path: Path, line: bytes) -> bool:
    """Write a head in the place of another one of the same length, without waiting for the disk; False where that is not sure.

    Why  the line is less than a sector, and the file's length stays: a crash of the machine leaves the old head or the new one. To wait
         for the disk twice takes longer than the charge itself; the lock keeps a reader from half of it
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size != len(line) or _lock(descriptor, alone=True) is not True:
            return False
        return os.write(descriptor, line) == len(line)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _wait_for_writer(descriptor: int) -> None:
    """Lock an open file with others who read it, once nobody writes it; read it as it is where somebody seems to for too long.

    Why  whoever may open the file may hold its lock and be stopped. A head is one short write: that of a process which is stopped is
         there as a whole or not at all, so the lock is for the moment of writing alone
    """
    end = time.monotonic() + WAIT_SECONDS
    while _lock(descriptor, alone=False) is False and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)


def _lock(descriptor: int, *, alone: bool) -> bool | None:
    """Lock an open file until it is closed, with others who read it or alone; False where others have it, None where there are no
    locks: there nobody writes over it."""
    try:
        import fcntl

        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True
