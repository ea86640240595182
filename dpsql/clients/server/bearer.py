"""Tokens that an issuer of OpenID Connect signed: whose they are, by keys that the issuer publishes.

Why     PyJWT checks the signature and the times. What it is told here is all that it may believe: the algorithms follow from the type
        of the issuer's key and never from the token, so that neither `none` nor a public key taken for a secret is one; a key is found
        by its id among the issuer's own, and never in the token or where the token says
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import jwt

from dpsql.clients.dbapi.packed import Json

SKEW_SECONDS = 60
"""By which the clocks of issuer and server may differ."""
LONGEST = 12_000
RENEW_SECONDS, PAUSE_SECONDS, KEEP_SECONDS = 3600.0, 30.0, 86_400.0
"""After which keys are fetched anew; between two tries; after which keys that could not be fetched anew hold no more."""
SMALLEST_RSA = 2048
REQUIRED = ("iss", "aud", "sub", "exp", "iat")
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""By the type of a key, what may be signed with it: never what is signed with a shared secret, nor nothing."""
Fetch = Callable[[], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of the issuer, and the algorithms that it is for."""

    key: object
    algorithms: tuple[str, ...]

    @staticmethod
    def read(found: Json) -> tuple[str, PublicKey] | None:
        """The id and the key; None where it is no key of signatures that is strong enough."""
        if not isinstance(found, dict) or found.get("use", "sig") != "sig":
            return None
        name, listed = found.get("kid"), ALGORITHMS.get(str(found.get("kty")), ())
        named = found.get("alg")
        algorithms = listed if named is None else tuple(one for one in listed if one == named)
        if not isinstance(name, str) or not algorithms or "d" in found:
            return None
        try:
            key = jwt.PyJWK({**found, "alg": algorithms[0]} if found["kty"] == "RSA" else found).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            return None
        if found["kty"] == "RSA" and key.key_size < SMALLEST_RSA:
            return None
        return name, PublicKey(key, algorithms)


class Bearers:
    """Holders of one issuer's tokens.

    fetch  gives the issuer's keys; None where they could not be had
    """

    def __init__(self, issuer: str, audience: str, fetch: Fetch) -> None:
        self._issuer, self._audience, self._fetch = issuer, audience, fetch
        self._keys: dict[str, PublicKey] = {}
        self._fetched = self._tried = float("-inf")
        self._turn = asyncio.Lock()

    async def renew(self) -> bool:
        """Fetch the keys, where that was not tried a moment ago. Output: whether they are there."""
        async with self._turn:
            now = time.monotonic()
            if now - self._tried >= PAUSE_SECONDS:
                self._tried = now
                found = await self._fetch()
                if isinstance(found, list):
                    self._keys = dict(filter(None, map(PublicKey.read, found)))
                    self._fetched = now
            return bool(self._keys)

    async def subject(self, token: str) -> str | None:
        """`sub` of a token that the issuer signed for this audience and that holds now; None for any other."""
        if len(token) > LONGEST:
            return None
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        name, algorithm = header.get("kid"), header.get("alg")
        # what it says must be understood is not
        if not isinstance(name, str) or not isinstance(algorithm, str) or "crit" in header:
            return None
        key = await self._key(name)
        if key is None or algorithm not in key.algorithms:
            return None
        return self._verified(token, key, algorithm)

    def _verified(self, token: str, key: PublicKey, algorithm: str) -> str | None:
        try:
            claims = jwt.decode(
                token, key.key, algorithms=[algorithm], audience=self._audience, issuer=self._issuer, leeway=SKEW_SECONDS,
                options={"require": list(REQUIRED)},
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None
        subject = claims.get("sub")
        return subject if isinstance(subject, str) and subject else None

    async def _key(self, name: str) -> PublicKey | None:
        """A key by its id. One that is not known may be new, and one that is may be gone; many made-up ids make one try."""
        if name not in self._keys or time.monotonic() - self._fetched > RENEW_SECONDS:
            await self.renew()
        return self._keys.get(name) if time.monotonic() - self._fetched <= KEEP_SECONDS else None
