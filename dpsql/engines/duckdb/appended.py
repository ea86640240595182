"""Files that rows are added to at their end: the first bytes of one as a file of its own, and the rows after them as another.

Both are written into the engine's private folder. The first bytes are those that were approved, whatever the form of the file is. The
rows after them are told apart where it is plain where a row ends: of text that is not compressed.

Why     in plain text a quote begins a field or ends one, and a line break outside of quotes ends a row, however it is read: the rows of
        the whole are those of its first bytes and those of the rest behind the same header, if a row ends between them
Limit   where that is not plain, the table is verified whole
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpsql.core.errors import Error, error
from dpsql.engines.duckdb.delimited import TextForm, form_of
from dpsql.engines.signature import CHUNK, FileStart, within

_BREAK, _RETURN, _QUOTE = b'\n\r"'
_LONGEST = 2**19
"""[bytes] Some row ends in as many, so none is too long for DuckDB's reader, which leaves those of 2^21 bytes out."""
Bytes = NDArray[np.uint8]


def copied_start(path: Path, start: FileStart, folder: Path) -> Path:
    """Write the first bytes of a file into the folder. Raises 708 where they are other ones, 707 where they cannot be copied."""
    target, digest, left, problem = within(folder, path), hashlib.sha256(), start.length, None
    try:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        with open(path, "rb") as source, open(target, "wb") as file:
            while left and (chunk := source.read(min(CHUNK, left))):
                digest.update(chunk)
                file.write(chunk)
                left -= len(chunk)
    except OSError:
        problem = _unwritten()
    if problem is None and digest.digest() != start.digest:
        problem = error(708, "the data changed while it was opened", hint="open it again when nothing writes to it")
    if problem is not None:
        raise problem
    return target


def added_rows(path: Path, length: int, folder: Path) -> Path | None:
    """Write the rows behind the first bytes of a file into the folder, as a file of the same form; None where it is not plain which
    those are. Raises 707."""
    form, target = form_of(path), within(folder, path)
    if form is None or form.compression != "none":
        return None
    try:
        with open(path, "rb") as source:
            length = _after_break(source, length)
            if not is_plain(source, form, length):
                return None
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with open(target, "wb") as file:
                # a mark of the encoding is one only where a file begins, so no row of objects does
                file.write(b"\n" if form.objects else _header(source, form))
                source.seek(length)
                while chunk := source.read(CHUNK):
                    file.write(chunk)
            return target
    except OSError:
        pass
    raise _unwritten()


def _unwritten() -> Error:
    return error(
        707, "a data file cannot be read, or no part of it kept", hint="see that the disk of temporary files has room"
    )


def _after_break(file: BinaryIO, length: int) -> int:
    """The place behind the line break that begins the rest, where the last row before it was written without one."""
    file.seek(max(length - 1, 0))
    before, rest = file.read(1), file.read(2)
    if before == b"\n":
        return length
    return length + (2 if rest == b"\r\n" else 1 if rest[:1] == b"\n" else 0)


def is_plain(file: BinaryIO, form: TextForm, place: int) -> bool:
    """True if all rows of a file are plain text, and one ends before this place [bytes]."""
    inside, ends = False, False
    for begin, text in _blocks(file):
        found = _plain(text, form, inside)
        if found is None:
            return False
        breaks, inside = found
        ends = ends or bool(np.any(breaks == place - 1 - begin))
    return ends


def _header(file: BinaryIO, form: TextForm) -> bytes:
    """The first row of a plain file: some row ends in its first block."""
    _, text = next(_blocks(file))
    breaks, _ = _plain(text, form, False) or ([0], False)
    file.seek(0)
    return file.read(int(breaks[0]) + 1)


def _blocks(file: BinaryIO) -> Iterator[tuple[int, Bytes]]:
    """The bytes of a file in blocks, each with its place, the byte before it and the two after it; beyond its ends are line breaks."""
    file.seek(0)
    begin, before, block = 0, b"\n", file.read(_LONGEST)
    while block:
        more = file.read(_LONGEST)
        yield begin, np.frombuffer(before + block + (more[:2] + b"\n\n")[:2], np.uint8)
        begin, before, block = begin + len(block), block[-1:], more


def _plain(text: Bytes, form: TextForm, inside: bool) -> tuple[NDArray[np.intp], bool] | None:
    """The places in a block where rows end, and whether the block ends inside quotes; None where it is not plain text.

    text    with the byte before and the two after the block
    inside  whether the block begins inside quotes
    """
    block, before, after, then = text[1:-2], text[:-3], text[2:-1], text[3:]
    returns, breaks = np.flatnonzero(block == _RETURN), np.flatnonzero(block == _BREAK)
    if np.any(after[returns] != _BREAK):
        return None
    quotes = np.flatnonzero(block == _QUOTE) if not form.objects else np.empty(0, np.intp)
    opening, closing = quotes[int(inside) :: 2], quotes[1 - int(inside) :: 2]
    between = [ord(form.delimiter), _BREAK, _QUOTE]
    is_closed = np.isin(after[closing], between) | ((after[closing] == _RETURN) & (then[closing] == _BREAK))
    if not (np.all(np.isin(before[opening], between)) and np.all(is_closed)):
        return None
    breaks = breaks[(np.searchsorted(quotes, breaks) + inside) % 2 == 0]
    return (breaks, (len(quotes) + inside) % 2 == 1) if len(breaks) or len(block) < _LONGEST else None
