"""Serve the RAND data on this machine: a copy of it with an analyst, alice, a password, and a budget of its own.

    python examples/server/start.py [--http]

prints what to type for psql and for psycopg; with --http, which needs dpsql[server], for curl and dpsql.connect too, and where the
owner's page is. Ctrl-C ends it; what was asked stays stored in the copy's folder.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parents[1] / "randhie"
ANALYST = "\n[analysts.alice]\nepsilon = 2.0\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Serve the RAND data to psql and other clients of PostgreSQL's protocol."
    )
    default = Path.home() / ".cache" / "dpsql-server"
    parser.add_argument("--folder", type=Path, default=default, help="where the copy of the data is, and its ledger")
    parser.add_argument("--listen", default="127.0.0.1:5439", help="HOST:PORT")
    parser.add_argument("--http", nargs="?", const="127.0.0.1:8439", help="HOST:PORT of HTTP; without it there is none")
    parser.add_argument("--password", help="of alice; a random one if it is not given")
    options = parser.parse_args()
    schema = copy(options.folder / "randhie")
    password = options.password or secrets.token_urlsafe(12)
    dpsql("check", str(schema), text=None)
    dpsql("user", "add", "alice", str(schema), text=password + "\n")
    host, _, port = options.listen.rpartition(":")
    print(f"PGPASSWORD='{password}' psql 'host={host} port={port} user=alice dbname=randhie'")
    print(f"psycopg.connect('host={host} port={port} user=alice dbname=randhie password={password}')", flush=True)
    command = [sys.executable, "-m", "dpsql", "serve", str(schema), "--listen", options.listen]
    if options.http:
        tell_http(options.http, str(schema))
        command += ["--http", options.http]
    return subprocess.run(command).returncode


def tell_http(place: str, schema: str) -> None:
    """Print what to type for HTTP, with tokens that hold for a day."""
    token, owner = (
        dpsql("user", *words, schema, "--days", "1", text=None) for words in (("token", "alice"), ("owner",))
    )
    print(f"dpsql.connect('http://{place}/randhie', token='{token}')")
    print(
        f"curl -H 'Authorization: Bearer {token}' http://{place}/v1/randhie/execute -d '{{\"sql\": \"SHOW TABLES\"}}'"
    )
    print(f"the owner's page: http://{place}/ with any name and the password {owner}", flush=True)


def copy(folder: Path) -> Path:
    """The path of the copy's schema; the copy is made where there is none."""
    if not folder.exists():
        shutil.copytree(DATA, folder, ignore=shutil.ignore_patterns("*.ledger*", ".*"))
        path = folder / "schema.toml"
        path.write_text(path.read_text(encoding="utf-8") + ANALYST, encoding="utf-8")
    return folder / "schema.toml"


def dpsql(*words: str, text: str | None) -> str:
    """Run one verb. Output: what it prints."""
    command = [sys.executable, "-m", "dpsql", *words]
    return subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.PIPE).stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
