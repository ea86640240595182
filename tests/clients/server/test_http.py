"""HTTP as curl says it: requests, answers, errors, who may, and what is not there."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.clients.server import tokens, users
from dpsql.clients.server.tokens import OWNER
from dpsql.core.errors import Error
from dpsql.schema.toml import read_schema
from tests.clients.server.test_ends import PUBLIC
from tests.support.raw_client import RawClient
from tests.support.served import Served, dump, until

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def own(server: Served) -> str:
    return server.token(OWNER)


@pytest.fixture(scope="module")
def alice(server: Served) -> str:
    return server.token("alice")


def say(
    server: Served, method: str, path: str, token: str | None = None, body: object = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of one request. body  an object, or bytes as they are"""
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=120)
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        said["Authorization"] = f"Bearer {token}"
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    connection.request(method, path, content, said)
    response = connection.getresponse()
    found = response.status, response.read(), {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    return found


def ask(server: Served, token: str, sql: str, op: str = "execute", **more: object) -> dict[str, object]:
    found: dict[str, object] = json.loads(say(server, "POST", f"/v1/randhie/{op}", token, {"sql": sql, **more})[1])
    return found


def code(found: bytes | dict[str, object]) -> str:
    told = json.loads(found) if isinstance(found, bytes) else found
    return str(told["error"]["code"])


# --- answers and errors ---------------------------------------------------------------------------------------------------


def test_an_answer(server: Served, alice: str) -> None:
    found = ask(
        server,
        alice,
        "SELECT site, COUNT(*) AS n FROM person WHERE site < 3 GROUP BY site ORDER BY site",
        accuracy=True,
    )
    assert found["columns"] == [["site", "INTEGER"], ["n", "BIGINT"]]
    assert [row[0] for row in found["rows"]] == [1, 2]  # type: ignore[union-attr]
    assert found["price"]["epsilon"] == "1/10"  # type: ignore[index]
    for row, intervals in zip(found["rows"], found["accuracy"], strict=True):  # type: ignore[call-overload]
        assert intervals[0] is None
        assert intervals[1][0] <= row[1] <= intervals[1][1]


def test_parameters(server: Served, alice: str) -> None:
    sql = "SELECT COUNT(*) FROM plan WHERE coinsurance_pct = ?"
    assert ask(server, alice, sql, parameters=[25])["rows"] == ask(server, alice, sql.replace("?", "25"))["rows"]
    dated = ask(server, alice, "SELECT :day::DATE AS day FROM plan LIMIT 1", parameters={"day": {"date": "2024-02-29"}})
    assert dated["rows"] == [["2024-02-29"]]


def test_an_error_has_its_parts(server: Served, alice: str) -> None:
    status, body, _ = say(
        server, "POST", "/v1/randhie/execute", alice, {"sql": "SELECT SUM(family_size) FROM person_year"}
    )
    told = json.loads(body)["error"]
    assert (status, told["code"], told["span"]) == (422, "DPSQL-201", [7, 22])
    assert told["hint"].startswith("declare bounds for person_year.family_size")


def test_arrow(server: Served, alice: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    sql = "SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site"
    body = say(
        server,
        "POST",
        "/v1/randhie/execute",
        alice,
        {"sql": sql, "accuracy": True},
        Accept="application/vnd.apache.arrow.stream",
    )[1]
    table = arrow.ipc.open_stream(body).read_all()
    assert table.column_names == ["site", "n", "n_low", "n_high"]
    assert [[row[0], row[1]] for row in zip(*table.to_pydict().values(), strict=True)] == ask(server, alice, sql)[
        "rows"
    ]
    assert json.loads(table.schema.metadata[b"dpsql"])["errors"] == [None, 30.0]


def test_what_is_free_leaves_the_ledger(server: Served, alice: str) -> None:
    before = dump(server.ledger)
    for op in ("describe", "prepare", "explain", "price"):
        assert "error" not in ask(server, alice, "SELECT AVG(income) FROM person WHERE site = 4", op=op)
    say(server, "GET", "/v1/randhie/schema", alice)
    say(server, "POST", "/v1/randhie/execute", "dpsql_wrong", {"sql": "SELECT COUNT(*) FROM person"})
    ask(server, alice, "SELECT AVG(income) FROM person WHERE nothing = 4")
    assert dump(server.ledger) == before


@pytest.mark.parametrize("op", ["execute", "price", "explain", "describe", "prepare", "certificates"])
def test_a_setting_that_is_another_statement_is_refused(server: Served, alice: str, op: str) -> None:
    """It would be charged where only a price was asked, and stand in no log of statements."""
    before = server.charges()
    for text in (
        "SELECT COUNT(*) FROM person WHERE income > 4321",
        "EXPLAIN SELECT 1",
        "SET dp_epsilon = 0.1; SELECT 1",
    ):
        settings = ["SET dp_epsilon = 0.2", text]
        assert code(ask(server, alice, "SELECT COUNT(*) FROM plan", op, settings=settings)) in (
            "DPSQL-101",
            "DPSQL-802",
        )
    assert server.charges() == before
    assert ask(server, alice, "SELECT COUNT(*) FROM plan", settings=["SET dp_epsilon = 0.2"])["rows"] == [[18]]


@pytest.mark.parametrize("value", ["1e999999999", "1/1e9", "1e5", "-1E-999999999", "1" * 401 + "/3", "1/0"])
def test_a_fraction_that_is_none_is_refused_before_it_is_computed(server: Served, alice: str, value: str) -> None:
    found = ask(
        server, alice, "SELECT COUNT(*) FROM person WHERE income > ?", "price", parameters=[{"fraction": value}]
    )
    assert code(found) == "DPSQL-108"


def test_the_same_key_is_the_same_charge(server: Served, alice: str) -> None:
    sql = "/* dpsql: fresh */ SELECT COUNT(*) FROM person WHERE female"
    before = len(server.charges())

    def keyed(key: str, text: str = sql) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            say(server, "POST", "/v1/randhie/execute", alice, {"sql": text}, Idempotency_Key=key)[1]
        )
        return found

    first, again = keyed("one"), keyed("one")
    assert first["rows"] == again["rows"]
    assert again["price"]["epsilon"] == "0"  # type: ignore[index]
    assert len(server.charges()) == before + 1
    keyed("two")
    assert len(server.charges()) == before + 2
    assert code(keyed("one", "/* dpsql: fresh */ SELECT COUNT(*) FROM person WHERE NOT female")) == "DPSQL-701"
    # another analyst's key of that name is another one
    other = say(server, "POST", "/v1/randhie/execute", server.token("bob"), {"sql": sql}, Idempotency_Key="one")
    assert json.loads(other[1])["price"]["epsilon"] == "1/10"
    assert len(server.charges()) == before + 3


def test_the_same_key_at_once_is_charged_once(server: Served, alice: str) -> None:
    sql, before, found = (
        "/* dpsql: fresh */ SELECT COUNT(*) FROM person WHERE site > 2",
        len(server.charges()),
        list[object](),
    )

    def one() -> None:
        told = say(server, "POST", "/v1/randhie/execute", alice, {"sql": sql}, Idempotency_Key="at once")[1]
        found.append(json.loads(told)["rows"])

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(rows == found[0] for rows in found)
    assert len(server.charges()) == before + 1


def test_cancel(server: Served, alice: str) -> None:
    told: list[bytes] = []
    words = ("POST", "/v1/randhie/execute", alice, {"sql": PUBLIC})
    thread = threading.Thread(target=lambda: told.append(say(server, *words, Idempotency_Key="slow/1")[1]))
    thread.start()
    bob = server.token("bob")
    while thread.is_alive():
        # nobody but the analyst ends it
        assert say(server, "DELETE", "/v1/randhie/statements/slow/1", bob)[0] == 200
        time.sleep(0.3)
        if thread.is_alive():
            say(server, "DELETE", "/v1/randhie/statements/slow/1", alice)
        thread.join(0.3)
    assert code(told[0]) == "DPSQL-703"


def test_seconds_beyond_every_number_are_as_many_as_there_may_be(server: Served, alice: str) -> None:
    assert ask(server, alice, "SELECT COUNT(*) FROM plan", seconds=10**400)["rows"] == [[18]]


def test_a_limit_of_seconds(server: Served, alice: str) -> None:
    assert code(ask(server, alice, PUBLIC, seconds=0.2)) == "DPSQL-703"


def test_a_client_that_goes_away_ends_nothing(server: Served, alice: str) -> None:
    """Its statement is finished and stored: to ask again is free (rule 73)."""
    sql, before = "SELECT AVG(income) FROM person WHERE site < 5", len(server.charges())
    body = json.dumps({"sql": sql}).encode()
    head = f"POST /v1/randhie/execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.http)) as one:
        one.sendall(head.encode() + body)
        until(lambda: len(server.charges()) > before)
    assert ask(server, alice, sql)["price"]["epsilon"] == "0"  # type: ignore[index]
    assert len(server.charges()) == before + 1


# --- who may --------------------------------------------------------------------------------------------------------------


def test_without_a_token_there_is_nothing(server: Served, alice: str) -> None:
    """The same for a wrong token, another dataset, and none."""
    body = {"sql": "SELECT 1"}
    told = {
        (say(server, "POST", f"/v1/{dataset}/execute", token, body)[:2])
        for dataset, token in (("randhie", None), ("randhie", "dpsql_x"), ("other", alice), ("other", None))
    }
    assert len(told) == 1
    assert next(iter(told))[0] == 401
    assert say(server, "GET", "/health")[:2] == (200, b"ok\n")
    for path in ("/", "/metrics", "/v1/randhie/schema"):
        assert say(server, "GET", path)[0] == 401
    for path in ("/docs", "/openapi.json", "/v1", "/..%2f..%2fetc/passwd", "/static/x"):
        assert say(server, "GET", path, alice)[0] == 404


def test_tokens_are_of_analysts_and_end(folder: Path) -> None:
    schema = read_schema(folder)
    path = tokens.tokens_file(users.users_file(schema))
    token = tokens.add(path, schema, "alice", 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert token not in path.read_text()
    holder = tokens.holder_of(path, tokens.digest(token))
    assert holder is not None and holder.name == "alice"
    with pytest.raises(Error, match="DPSQL-803: 'eve' is not a declared analyst"):
        tokens.add(path, schema, "eve", 1)
    with pytest.raises(Error, match="DPSQL-802: a token holds for 1 to"):
        tokens.add(path, schema, "alice", 0)
    held = {key: f"2020-01-01 {one.name}" for key, one in tokens.read_tokens(path).items()}
    users.write_private(path, held)
    assert tokens.holder_of(path, tokens.digest(token)) is None
    tokens.add(path, schema, "bob", 1)
    assert [one.name for one in tokens.read_tokens(path).values()] == ["bob"]
    assert tokens.remove(path, "bob") == 1
    path.chmod(0o644)
    with pytest.raises(Error, match=r"DPSQL-802.*can be read by others"):
        tokens.read_tokens(path)


def test_a_token_that_was_removed_ends(server: Served) -> None:
    schema = read_schema(server.schema)
    token = server.token("carol")
    assert say(server, "GET", "/v1/randhie/schema", token)[0] == 200
    tokens.remove(tokens.tokens_file(users.users_file(schema)), "carol")
    until(lambda: say(server, "GET", "/v1/randhie/schema", token)[0] == 401)


def test_an_owner_asks_nothing_and_a_password_of_a_browser_neither(server: Served, own: str, alice: str) -> None:
    assert code(ask(server, own, "SELECT COUNT(*) FROM person")) == "DPSQL-803"
    basic = "Basic " + base64.b64encode(f"x:{alice}".encode()).decode()
    told = say(server, "POST", "/v1/randhie/execute", None, {"sql": "SELECT COUNT(*) FROM person"}, Authorization=basic)
    assert told[0] == 401


# --- what is no request ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"1", b'{"sql": 1}', b'{"sql": "SELECT 1", "more": 1}', b'{"sql": "SELECT 1", "settings": 1}',
        b'{"sql": "SELECT 1", "seconds": -1}', b'{"sql": "SELECT 1", "seconds": true}', b"[" * 100_000, b"\xff\xfe",
        b'{"sql": "SELECT 1", "settings": ["DROP TABLE person"]}', b'{"sql": "SELECT ?", "parameters": [[1]]}',
    ],
)  # fmt: skip
def test_bodies_that_are_none(body: bytes, server: Served, alice: str) -> None:
    status, told, _ = say(server, "POST", "/v1/randhie/execute", alice, body)
    assert 400 <= status < 500
    assert code(told) in ("DPSQL-802", "DPSQL-108", "DPSQL-103", "DPSQL-101")


def test_a_body_that_is_too_long(server: Served, alice: str) -> None:
    sql = "SELECT 1 --" + "x" * 1024 * 1024
    assert code(say(server, "POST", "/v1/randhie/execute", alice, {"sql": sql})[1]) == "DPSQL-107"


@pytest.mark.slow
def test_who_says_too_little_is_sent_away(server: Served) -> None:
    """After ten seconds for nothing or half a head; for half of a second one that came with the first, as an idle connection is."""
    said = (b"", b"GET / HT", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /hea")
    open_ones = [socket.create_connection(("127.0.0.1", server.http), timeout=120) for _ in said]
    for one, words in zip(open_ones, said, strict=True):
        one.sendall(words)
    for one in open_ones:
        while one.recv(65536):
            pass
        one.close()


@pytest.mark.slow
def test_who_says_a_head_letter_by_letter_is_sent_away(server: Served) -> None:
    """Each letter is no new beginning: a connection would else be held for days."""
    with socket.create_connection(("127.0.0.1", server.http), timeout=60) as slow:
        end = time.monotonic() + 40
        ended = False
        slow.settimeout(0.5)
        slow.sendall(b"GET /health HTTP/1.1\r\nX: ")
        while not ended and time.monotonic() < end:
            try:
                slow.sendall(b"a")
                ended = slow.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert ended


def test_a_head_that_is_too_long(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.http), timeout=60) as one:
        one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000)
        assert one.recv(65536).startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))


# --- the page, and numbers ------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(server: Served, alice: str) -> Iterator[None]:
    """Something of two analysts that the page shows."""
    ask(server, alice, "SELECT COUNT(*) FROM person WHERE physical_limitation > 0")
    ask(server, server.token("bob"), "SELECT COUNT(*) FROM person WHERE mental_health_index > 60")
    ask(server, server.token("bob"), "SELECT SUM(family_size) FROM person_year")
    yield


def test_the_owners_page(shown: None, server: Served, own: str) -> None:
    status, body, headers = say(server, "GET", "/", own)
    text = body.decode()
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "<script" not in text
    for wanted in (
        "alice",
        "bob",
        "mental_health_index &gt; 60",
        "refused: DP201",
        "<svg",
        "versions of the data",
        "cubes",
        "failures",
    ):
        assert wanted in text


def test_an_analysts_page_shows_their_own_alone(shown: None, server: Served, alice: str) -> None:
    basic = "Basic " + base64.b64encode(f"alice:{alice}".encode()).decode()
    status, body, _ = say(server, "GET", "/", None, Authorization=basic)
    text = body.decode()
    assert status == 200
    assert "physical_limitation" in text
    for other in ("bob", "carol", "mental_health_index", "versions of the data", "failures"):
        assert other not in text


def test_metrics_count_statements_codes_and_prices(shown: None, server: Served, own: str, alice: str) -> None:
    text = say(server, "GET", "/metrics", own)[1].decode()
    assert 'dpsql_statements_total{dataset="randhie",code="DP201"}' in text
    assert 'dpsql_epsilon_total{dataset="randhie"}' in text
    assert {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")} == {
        "dpsql_statements_total", "dpsql_epsilon_total", "dpsql_clients",
    }  # fmt: skip
    # what others ask is not an analyst's to see
    assert say(server, "GET", "/metrics", alice)[0] == 401


def test_text_of_an_analyst_is_text_on_the_page(server: Served, alice: str, own: str) -> None:
    ask(server, alice, 'SELECT COUNT(*) AS "<script>alert(1)</script>" FROM person WHERE education_years > 11')
    text = say(server, "GET", "/", own)[1].decode()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_both_protocols_are_one_server(server: Served, alice: str) -> None:
    """An answer that one bought is the other's."""
    sql = "SELECT COUNT(*) FROM person WHERE education_years > 15"
    with RawClient(server.port) as client:
        client.login()
        client.query(sql)
    assert ask(server, alice, sql)["price"]["cached"] is True  # type: ignore[index]
