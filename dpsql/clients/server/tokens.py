"""Bearer tokens of a server's HTTP: a file that only its owner reads, with the hash of each token, its holder and its last day.

Why     a token is 256 random bits, so that a plain hash keeps it: nobody finds one that fits
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from dpsql.clients.server.users import read_private, require_analyst, require_served, write_private
from dpsql.core.errors import error
from dpsql.schema.model import Schema

SUFFIX = ".tokens"
OWNER = ""
"""The name that stands for the dataset's owner, who asks nothing, and sees the page of the server."""
DAYS = 90
"""[days] that a token holds where nothing else is asked."""
MOST_DAYS = 3650
_HELD = re.compile(r"(\d{4}-\d{2}-\d{2}) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Holder of a token, and the last day on which it does, in UTC.

    name  of an analyst, or OWNER
    """

    name: str
    last: date

    @staticmethod
    def read(text: str) -> TokenHolder | None:
        """None where the text is none.

        >>> TokenHolder.read("2027-01-31 alice")
        TokenHolder(name='alice', last=datetime.date(2027, 1, 31))
        """
        found = _HELD.fullmatch(text)
        try:
            return None if found is None else TokenHolder(found[2], date.fromisoformat(found[1]))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.last.isoformat()} {self.name}"

    @property
    def is_over(self) -> bool:
        return _today() > self.last


def tokens_file(users: Path) -> Path:
    """Path of the tokens: beside the users."""
    return users.with_name(users.name + SUFFIX)


def digest(token: str) -> str:
    """The hash by which a token is known."""
    return hashlib.sha256(token.encode("utf-8", "backslashreplace")).hexdigest()


def read_tokens(path: Path) -> dict[str, TokenHolder]:
    """Hashes of tokens, and their holders. Raises 802."""
    held = read_private(path, "tokens", lambda text: TokenHolder.read(text) is not None)
    return {hashed: found for hashed, text in held.items() if (found := TokenHolder.read(text)) is not None}


def _write(path: Path, held: Mapping[str, TokenHolder]) -> None:
    write_private(path, {hashed: str(holder) for hashed, holder in held.items()})


def holder_of(path: Path, hashed: str) -> TokenHolder | None:
    """The holder of a token now; None where it is none, or is over. Raises 802."""
    found = read_tokens(path).get(hashed)
    return None if found is None or found.is_over else found


def add(path: Path, schema: Schema, name: str, days: int) -> str:
    """A new token of an analyst, or of the OWNER; those that are over are forgotten. Raises 802, 803."""
    if name == OWNER:
        require_served(schema)
    else:
        require_analyst(schema, name)
    if not 1 <= days <= MOST_DAYS:
        raise error(802, f"a token holds for 1 to {MOST_DAYS:,} days", hint="write --days 90")
    token = f"dpsql_{secrets.token_urlsafe(32)}"
    held = {hashed: holder for hashed, holder in read_tokens(path).items() if not holder.is_over}
    _write(path, {**held, digest(token): TokenHolder(name, _today() + timedelta(days=days))})
    return token


def remove(path: Path, name: str) -> int:
    """Forget all tokens of an analyst, or of the OWNER. Output: how many there were. Raises 802."""
    held = read_tokens(path)
    left = {hashed: holder for hashed, holder in held.items() if holder.name != name}
    if len(left) < len(held):
        _write(path, left)
    return len(held) - len(left)


def _today() -> date:
    return datetime.now(UTC).date()
