"""schema.toml: reading it with every mistake at once, and writing it."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path

from dpsql.core.errors import error
from dpsql.schema.mistakes import Mistakes
from dpsql.schema.model import Schema
from dpsql.schema.read import read
from dpsql.schema.write import write


def read_schema(path: str | Path) -> Schema:
    """Read a schema file.

    Raises SchemaError (DPSQL-801) with every mistake: file, table, column and what to write.
    """
    mistakes = Mistakes(str(path))
    document = _parsed(_content(path), str(path))
    schema = read(document, Path(path).parent, mistakes)
    mistakes.raise_any()
    return schema


def to_toml(schema: Schema) -> str:
    """The text of a schema file that reads back as an equal schema, apart from its folder and what opening fills in.

    Raises SchemaError (DPSQL-801) where a number has no exact decimal.
    """
    return write(schema)


def _content(path: str | Path) -> str:
    """The text of the file; a mark of byte order at its start is not part of it."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as caught:
        reason, remedy = f"is not UTF-8 at byte {caught.start}", "save it as UTF-8"
    except FileNotFoundError:
        reason, remedy = "does not exist", "write the path of a schema.toml, or draft one with dpsql init"
    except IsADirectoryError:
        reason, remedy = "is a folder", "write the path of the schema.toml in it"
    except (OSError, ValueError) as caught:
        reason = f"cannot be read ({getattr(caught, 'strerror', None) or caught})"
        remedy = "write the path of a readable file"
    raise error(801, f"{path} {reason}", hint=remedy)


def _parsed(text: str, file: str) -> dict[str, object]:
    try:
        return tomllib.loads(text, parse_float=_decimal)
    except tomllib.TOMLDecodeError as caught:
        reason = str(caught)
    except ValueError:
        # Python refuses to read integers of thousands of digits
        reason = "a number has too many digits"
    except RecursionError:
        reason = "lists or tables are nested too deeply"
    located = _located(reason, text)
    line = re.match(r"line (\d+): Invalid value", located)
    bare = re.search(r"=\s*([A-Za-z]\w*)\s*(#.*)?$", text.splitlines()[int(line[1]) - 1]) if line else None
    hint = f'put the text in quotes: "{bare[1]}"' if bare else "correct that line"
    raise error(801, f"{file} is not TOML: {located}", hint=hint)


def _located(reason: str, text: str) -> str:
    """The parser's reason with the line said first; an unexpected end is on the last line."""
    where = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", reason)
    if where is None:
        return reason
    line = where[1] or str(max(1, len(text.splitlines())))
    return f"line {line}: {reason[: where.start()]}"


def _decimal(text: str) -> Decimal:
    """An exact number; an exponent beyond all reason reads as infinite, which no declaration accepts."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")
