"""The verbs of the server: serve, and user add, token, owner, list and remove."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from pathlib import Path

from dpsql.clients.server import tokens, users
from dpsql.clients.server.options import HTTP_PORT, PORT, Address, ServeOptions
from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.schema.toml import read_schema


def run(verb: str, given: Sequence[str]) -> int:
    """Run one verb with what stands behind it, and return the exit code. Raises dpsql.Error."""
    return _serve(given) if verb == "serve" else _user(given)


def _say(line: str) -> None:
    print(harmless(line, kept="\n"), file=sys.stderr, flush=True)


# --- serve ----------------------------------------------------------------------------------------------------------------


def _serve(given: Sequence[str]) -> int:
    from dpsql.clients.server.supervisor import Supervisor

    options = serve_parser().parse_intermixed_args(_http_alone(given))
    return Supervisor(ServeOptions(**vars(options)), _say).run()


def _http_alone(given: Sequence[str]) -> list[str]:
    """The words with `--http` apart from a schema that follows it: the name of a file has no port."""
    found: list[str] = []
    for word in given:
        is_path = bool(found) and found[-1] == "--http" and not word.rpartition(":")[2].isdecimal()
        if is_path:
            found[-1] = f"--http=127.0.0.1:{HTTP_PORT}"
        found.append(word)
    return found


def serve_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpsql serve",
        description="Answer analysts over PostgreSQL's protocol and HTTP; data, ledger and budgets stay here.",
    )
    parser.add_argument(
        "schemas", metavar="SCHEMA", nargs="+", type=Path, help="path of a schema.toml that declares [analysts]"
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", type=Address.read, default=Address("127.0.0.1", PORT),
        help="127.0.0.1:5439 if it is not given",
    )  # fmt: skip
    parser.add_argument(
        "--http", metavar="HOST:PORT", nargs="?", type=_http_address, const=Address("127.0.0.1", HTTP_PORT),
        help="answer HTTP too, at 127.0.0.1:8439 if no other address is given; needs dpsql[server]",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert",
        dest="certificate",
        metavar="FILE",
        type=Path,
        help="certificate in PEM; needed but on the loopback",
    )
    parser.add_argument("--tls-key", dest="key", metavar="FILE", type=Path, help="its key")
    parser.add_argument("--users", metavar="FILE", type=Path, help="one file of users for all datasets")
    parser.add_argument(
        "--account", metavar="NAME", help="the system's account of the front, where root starts the server"
    )
    parser.add_argument("--oidc", metavar="FILE", type=Path, help="issuer of tokens that stand for analysts over HTTP")
    parser.add_argument("--workers", metavar="N", type=_count, default=2, help="processes that answer, a dataset")
    parser.add_argument("--log-statements", action="store_true", help="write the text of statements to the log too")
    return parser


def _http_address(text: str) -> Address:
    return Address.read(text, "--http", HTTP_PORT)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 256")
    return int(text)


# --- user -----------------------------------------------------------------------------------------------------------------


def _user(given: Sequence[str]) -> int:
    options = user_parser().parse_args(given)
    schema = read_schema(options.schema)
    path = options.users or users.users_file(schema)
    match options.verb:
        case "add":
            users.add(path, schema, options.name, _password(options.name))
            _say(f"{options.name} may log in to {schema.name}")
        case "token" | "owner":
            name = options.name if options.verb == "token" else tokens.OWNER
            print(tokens.add(tokens.tokens_file(path), schema, name, options.days))
            whose = f"{options.name}'s" if options.verb == "token" else "the owner's"
            _say(f"{whose} token for {schema.name}, for {options.days} days; it is shown this once")
        case "remove":
            _remove(path, options.name)
            _say(f"{options.name} may log in no more")
        case _:
            for name in sorted(users.read_users(path)):
                print(harmless(name))
    return 0


def _remove(path: Path, name: str) -> None:
    """Forget the password and the tokens of a user. Raises 802; 803 where there were none."""
    if not tokens.remove(tokens.tokens_file(path), name) or name in users.read_users(path):
        users.remove(path, name)


def _password(name: str) -> str:
    """The password as it is typed twice, or as the first line of standard input. Raises 802."""
    if sys.stdin is None or not sys.stdin.isatty():
        return (sys.stdin.readline() if sys.stdin is not None else "").rstrip("\r\n")
    first = getpass.getpass(f"password of {name}: ")
    if getpass.getpass("once more: ") != first:
        raise error(802, "the two passwords differ", hint="type it again")
    return first


def user_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpsql user", description="Who may log in to the server: analysts of a schema."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, what in (("add", "let an analyst log in; asks for a password"),
                       ("token", "print a new token, by which an analyst comes over HTTP"),
                       ("owner", "print a new token for the server's page and its metrics"),
                       ("list", "show who may log in"), ("remove", "let a user log in no more, and forget their tokens")):  # fmt: skip
        one = verbs.add_parser(verb, help=what, description=what)
        if verb not in ("list", "owner"):
            one.add_argument("name", metavar="NAME")
        if verb in ("token", "owner"):
            one.add_argument("--days", type=int, default=tokens.DAYS, help=f"for how long; {tokens.DAYS} if not given")
        one.add_argument("schema", metavar="SCHEMA")
        one.add_argument("--users", metavar="FILE", type=Path, help="one file of users for all datasets")
    return parser
