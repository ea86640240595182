"""The page of the server shows what psql prints."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dpsql.clients.server.answering import Answering
from dpsql.clients.server.frames import Message
from tests.support.served import PASSWORD, ROOT, dataset, served

PAGE = ROOT / "grammar_notes" / "server" / "serving.md"
_NUMBER = re.compile(r"[+-]?\d[\d,.e+-]*")


def transcripts() -> list[tuple[str, str]]:
    """Commands of psql and their outputs: indented, each behind `$ `."""
    blocks = re.findall(r"^    \$ (psql .*)\n((?:    (?!\$ ).*\n)+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(command, re.sub(r"^    ", "", output, flags=re.MULTILINE)) for command, output in blocks]


def masked(text: str) -> list[str]:
    """Lines in any order of the two streams, with one letter for each number and without what aligns them."""
    return sorted(
        re.sub(r"\s+|-{2,}", " ", _NUMBER.sub("N", line)).strip() for line in text.splitlines() if line.strip()
    )


@pytest.mark.slow
def test_the_page_shows_what_psql_prints(tmp_path: Path) -> None:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    assert len(transcripts()) == 3
    with served(dataset(tmp_path), "--workers", "1") as server:
        for command, output in transcripts():
            words = ["psql", "-X", server.address(), *shlex.split(command)[1:]]
            environment = {**os.environ, "PGPASSWORD": PASSWORD, "PAGER": "cat"}
            done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
            assert masked(done.stdout + done.stderr) == masked(output)


@pytest.mark.parametrize("shared", [True, False])
def test_the_owners_report_has_everybodys_cubes(tmp_path: Path, shared: bool) -> None:
    path = dataset(tmp_path)
    text = path.read_text().replace("[privacy]", f"[privacy]\nshared_answers = {str(shared).lower()}")
    path.write_text(text)
    told: list[Message] = []
    with Answering(path) as answering:
        for name, key in (("bob", "site"), ("alice", "plan")):
            cube = f"CREATE PRIVATE CUBE of_{name} AS SELECT {key}, COUNT(*) FROM person GROUP BY CUBE ({key})"
            answering.answer({"op": "execute", "analyst": name, "sql": cube}, lambda part: None)
        answering.answer({"op": "report", "owner": True}, told.append)
    (report,) = told
    (cubes,) = (table["rows"] for table in report["tables"] if table["title"] == "cubes")  # type: ignore[union-attr,index,call-overload]
    assert [one[:4] for one in cubes if isinstance(one, list)] == [
        ["of_alice", "plan", "COUNT(*)", 1.0], ["of_bob", "site", "COUNT(*)", 1.0]
    ]  # fmt: skip


def test_the_example_starts(tmp_path: Path) -> None:
    """The README's one command, up to its first answer."""
    psycopg = pytest.importorskip("psycopg")
    from tests.support.served import example

    with example(tmp_path) as port:
        address = f"host=127.0.0.1 port={port} user=alice dbname=randhie password={PASSWORD.replace(' ', '')}"
        with psycopg.connect(address, autocommit=True) as connection:
            assert connection.execute("SELECT COUNT(*) FROM plan").fetchall() == [(18,)]
