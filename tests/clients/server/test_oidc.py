"""Tokens of an issuer: which one stands for somebody, and every kind that must not; and a server that takes them."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.core.errors import Error
from tests.clients.server.test_http import ask, say
from tests.support.served import Served, dataset, dump, served, until

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")
jwt = pytest.importorskip("jwt")

from dpsql.clients.server import bearer  # noqa: E402
from dpsql.clients.server.bearer import PAUSE_SECONDS, RENEW_SECONDS, SKEW_SECONDS, Bearers  # noqa: E402
from dpsql.clients.server.oidc import read_issuer  # noqa: E402
from tests.support.issuer import AUDIENCE, SUBJECT, Issuer, declared, issuing  # noqa: E402

Make = Callable[[Issuer], str]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


def subject(issuer: Issuer, token: str, keys: list[dict[str, Any]] | None = None) -> str | None:
    """Whom a token stands for, with the keys that the issuer publishes."""

    async def fetch() -> Any:
        return issuer.jwks if keys is None else keys

    return asyncio.run(Bearers(issuer.url, AUDIENCE, fetch).subject(token))


def as_hs256(issuer: Issuer) -> str:
    """The public key, which anybody knows, taken for the secret of another algorithm."""
    secret = issuer.pem("rsa")
    header = {"alg": "HS256", "typ": "JWT", "kid": "rsa"}
    return issuer.by_hand(header, issuer.claims(), lambda said: hmac.digest(secret, said, "sha256"))


def unsigned(word: str) -> Make:
    return lambda issuer: issuer.by_hand({"alg": word, "kid": "rsa"}, issuer.claims(), lambda said: b"")


def of_another(issuer: Issuer) -> str:
    """Signed by somebody else's key, under the id of the issuer's; with that key in its header."""
    other = Issuer(issuer.url)
    other.add("rsa", "RS256")
    return other.token("rsa", header={"jwk": other.jwk("rsa"), "jku": f"{issuer.url}/other", "x5u": issuer.url})


def changed(issuer: Issuer) -> str:
    """The claims of one token with the signature of another."""
    one, other = issuer.token(), issuer.token(sub="somebody-else")
    return ".".join([*other.split(".")[:2], one.split(".")[2]])


BAD: dict[str, Make] = {
    "no algorithm": unsigned("none"),
    "no algorithm, in capitals": unsigned("NONE"),
    "no signature": lambda issuer: ".".join([*issuer.token().split(".")[:2], ""]),
    "the public key as a secret": as_hs256,
    "of another key": of_another,
    "other claims": changed,
    "for another audience": lambda issuer: issuer.token(aud="another-service"),
    "for others": lambda issuer: issuer.token(aud=["one", "two"]),
    "for nobody": lambda issuer: issuer.token(aud=None),
    "of another issuer": lambda issuer: issuer.token(iss="https://elsewhere.example"),
    "of no issuer": lambda issuer: issuer.token(iss=None),
    "over": lambda issuer: issuer.token(iat=-600, exp=-SKEW_SECONDS - 30),
    "for ever": lambda issuer: issuer.token(exp=None),
    "not yet": lambda issuer: issuer.token(nbf=SKEW_SECONDS + 60),
    "made tomorrow": lambda issuer: issuer.token(iat=86_400, exp=90_000),
    "made never": lambda issuer: issuer.token(iat=None),
    "of no subject": lambda issuer: issuer.token(sub=None),
    "of an empty subject": lambda issuer: issuer.token(sub=""),
    "of an unknown key": lambda issuer: issuer.token(header={"kid": "unknown"}),
    "of a key of another kind": lambda issuer: issuer.token(header={"kid": "ec"}),
    "of no key": lambda issuer: issuer.token(header={"kid": None}),
    "with what must be understood": lambda issuer: issuer.token(header={"crit": ["exp"]}),
    "too long": lambda issuer: issuer.token(more="x" * 20_000),
    "no token": lambda issuer: "a.b.c",
    "nothing": lambda issuer: "..",
}


@pytest.mark.parametrize("name", ["rsa", "ec", "ed"])
def test_a_token_of_the_issuer(name: str, issuer: Issuer) -> None:
    assert subject(issuer, issuer.token(name)) == SUBJECT
    assert subject(issuer, issuer.token(name, aud=["other", AUDIENCE])) == SUBJECT
    late = issuer.token(name, iat=-300, exp=-SKEW_SECONDS + 20)
    early = issuer.token(name, nbf=SKEW_SECONDS - 20, iat=SKEW_SECONDS - 20)
    assert [subject(issuer, one) for one in (late, early)] == [SUBJECT, SUBJECT]


@pytest.mark.parametrize("name", BAD)
def test_any_other_token_stands_for_nobody(name: str, issuer: Issuer) -> None:
    assert subject(issuer, BAD[name](issuer)) is None


PLANTED = {
    "verify_aud": ["for another audience", "for others"],
    "verify_iss": ["of another issuer"],
    "verify_exp": ["over"],
    "verify_nbf": ["not yet"],
    "verify_iat": ["made tomorrow"],
    "verify_signature": ["of another key", "other claims", "no signature"],
}


@pytest.mark.parametrize("check", PLANTED)
def test_planted_a_check_that_is_left_out(check: str, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens above are refused by the check that they are named for, and by no other."""
    original = jwt.decode

    def without(*words: Any, **named: Any) -> Any:
        return original(*words, **{**named, "options": {**named["options"], check: False}})

    monkeypatch.setattr(bearer.jwt, "decode", without)
    assert all(subject(issuer, BAD[name](issuer)) is not None for name in PLANTED[check])


def test_planted_the_algorithm_that_the_token_names(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lets the token say how it is checked takes a public key, which anybody knows, for a secret."""

    def naive(token: str, *_: object, **__: object) -> object:
        said, _, signature = token.rpartition(".")
        assert hmac.digest(issuer.pem("rsa"), said.encode(), "sha256") == jwt.utils.base64url_decode(signature)
        return json.loads(jwt.utils.base64url_decode(said.split(".")[1]))

    monkeypatch.setattr(bearer.jwt, "decode", naive)
    assert subject(issuer, as_hs256(issuer)) is None
    monkeypatch.setattr(bearer, "ALGORITHMS", {kind: (*listed, "HS256") for kind, listed in bearer.ALGORITHMS.items()})
    assert subject(issuer, as_hs256(issuer), [issuer.jwk("rsa")]) == SUBJECT


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"alg": "PS256"},
        {"alg": "HS256"},
        {"kid": None},
        {"n": "AQAB"},
        {"n": "?"},
    ],
)
def test_keys_that_are_none(change: dict[str, Any], issuer: Issuer) -> None:
    """Of another use or kind, for another algorithm, without an id, too short, unreadable."""
    assert subject(issuer, issuer.token(), [{**issuer.jwk("rsa"), **change}]) is None
    assert subject(issuer, issuer.token(), ["no key", *issuer.jwks]) == SUBJECT  # type: ignore[list-item]


def test_keys_are_fetched_anew(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new key is found; one that is gone holds no more after a while; unknown ids make no storm of questions."""
    now, fetched = [0.0], list[float]()
    published: list[Any] = [issuer.jwk("rsa")]
    monkeypatch.setattr(bearer.time, "monotonic", lambda: now[0])

    async def fetch() -> Any:
        fetched.append(now[0])
        return list(published) or None

    async def run() -> None:
        bearers = Bearers(issuer.url, AUDIENCE, fetch)
        assert await bearers.subject(issuer.token()) == SUBJECT
        for _ in range(50):
            assert await bearers.subject(issuer.token("ec")) is None
        assert fetched == [0.0]
        published.append(issuer.jwk("ec"))
        now[0] = PAUSE_SECONDS
        assert await bearers.subject(issuer.token("ec")) == SUBJECT
        del published[0]
        assert await bearers.subject(issuer.token()) == SUBJECT
        now[0] += RENEW_SECONDS + 1
        assert await bearers.subject(issuer.token()) is None
        published.clear()
        now[0] += RENEW_SECONDS + 1
        assert await bearers.subject(issuer.token("ec")) == SUBJECT, "the issuer may be away for a while"
        now[0] += bearer.KEEP_SECONDS
        assert await bearers.subject(issuer.token("ec")) is None

    asyncio.run(run())


# --- the owner's file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("issuer = ", "is no TOML"),
        ('audience = "a"\n[subjects]\na = "alice"', "names no issuer by https"),
        ('issuer = "http://login.example.org"\naudience = "a"\n[subjects]\na = "alice"', "names no issuer by https"),
        ('issuer = "https://u@login.example.org"\naudience = "a"\n[subjects]\na = "alice"', "names no issuer by https"),
        ('issuer = "https://login.example.org"\n[subjects]\na = "alice"', "names no audience"),
        ('issuer = "https://login.example.org"\naudience = "a"', "says of nobody"),
        ('issuer = "https://login.example.org"\naudience = "a"\nleeway = 3', "has no 'leeway'"),
        ('issuer = "https://login.example.org"\naudience = "a"\n[subjects]\na = 3', "says of nobody"),
    ],
)
def test_a_file_that_declares_no_issuer(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "oidc.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(Error, match=f"DPSQL-802: .*{what}"):
        read_issuer(path)


def test_a_file_that_others_may_write(tmp_path: Path) -> None:
    path = tmp_path / "oidc.toml"
    path.write_text('issuer = "https://login.example.org"\naudience = "a"\n[subjects]\nx = "alice"')
    path.chmod(0o666)
    with pytest.raises(Error, match=r"DPSQL-802: .*can be written by others"):
        read_issuer(path)
    path.chmod(0o644)
    assert read_issuer(path).subjects == {"x": "alice"}
    with pytest.raises(Error, match=r"DPSQL-802: .*cannot be read"):
        read_issuer(tmp_path / "nothing.toml")


# --- a server -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taking(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = dataset(tmp_path_factory.mktemp("oidc"))
    file = path.with_name("oidc.toml")
    file.write_text(declared(issuer, **{SUBJECT: "alice", "of-nobody": "mallory", "of-the-owner": "owner"}))
    file.chmod(0o600)
    with served(path, "--http", "127.0.0.1:0", "--oidc", str(file)) as server:
        # where the machine is busy the keys come at the second try
        until(lambda: say(server, "GET", "/v1/randhie/schema", issuer.token())[0] == 200)
        yield server


def test_a_server_knows_the_analyst_by_the_token(taking: Served, issuer: Issuer) -> None:
    for name in ("rsa", "ec", "ed"):
        with dpsql.connect(taking.url, token=issuer.token(name)) as connection:
            connection.execute(f"SELECT COUNT(*) AS {name} FROM person WHERE income > 5000").fetchall()
    assert [row for row in taking.charges() if "alice" in row] == taking.charges() != []
    # tokens of the owner's own still do
    assert "rows" in ask(taking, taking.token("bob"), "SELECT COUNT(*) FROM plan")


@pytest.mark.parametrize("name", [*BAD, "not declared", "declared, and no analyst", "declared as the owner"])
def test_a_server_refuses_any_other_token(name: str, taking: Served, issuer: Issuer) -> None:
    """The same 401 as for any wrong token; nothing is charged, and nothing of the token is written anywhere."""
    others = {
        "not declared": "stranger",
        "declared, and no analyst": "of-nobody",
        "declared as the owner": "of-the-owner",
    }
    token = issuer.token(sub=others[name]) if name in others else BAD[name](issuer)
    before = dump(taking.ledger)
    status, body, *_ = say(taking, "POST", "/v1/randhie/execute", token, {"sql": "SELECT COUNT(*) FROM person"})
    assert (status, json.loads(body)["error"]["code"]) == (401, "DPSQL-803")
    assert dump(taking.ledger) == before
    assert not [line for line in taking.lines if len(token) > 20 and token[:20] in line]


def test_subjects_are_read_anew(taking: Served, issuer: Issuer) -> None:
    """Whom a subject stands for ends when the owner takes the line out."""
    file = taking.schema.with_name("oidc.toml")
    kept = file.read_text()
    token = issuer.token(sub="visitor")
    assert say(taking, "GET", "/v1/randhie/schema", token)[0] == 401
    try:
        file.write_text(kept + '"visitor" = "carol"\n')
        until(lambda: say(taking, "GET", "/v1/randhie/schema", token)[0] == 200)
        file.write_text(kept)
        until(lambda: say(taking, "GET", "/v1/randhie/schema", token)[0] == 401)
    finally:
        file.write_text(kept)


def test_an_issuer_that_is_away(tmp_path: Path) -> None:
    """The server starts, says so, and takes its own tokens; the issuer's are refused."""
    path = dataset(tmp_path)
    away = Issuer("http://127.0.0.1:9")
    away.add("rsa", "RS256")
    file = path.with_name("oidc.toml")
    file.write_text(declared(away, **{SUBJECT: "alice"}))
    file.chmod(0o600)
    with served(path, "--http", "127.0.0.1:0", "--oidc", str(file), "--workers", "1") as server:
        assert [line for line in server.lines if "keys of http://127.0.0.1:9 could not be fetched" in line]
        assert say(server, "GET", "/v1/randhie/schema", away.token())[0] == 401
        assert say(server, "GET", "/v1/randhie/schema", server.token())[0] == 200
