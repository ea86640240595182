"""Starts Apache Superset over the RAND data, from nothing: python examples/superset/start.py

Makes a virtual environment, a login and a dashboard in one folder (the first time two minutes and 1.2 GB), and serves it on this
machine alone until Ctrl-C. Nothing is written to this repository.
"""

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
# What Superset 6.1 needs to start and does not name.
NEEDS = ["apache-superset==6.1.0", "rich", "cachetools", "flask-caching==2.3.1"]
LOGINS = """
# Superset asks as this one: no question of its may cost more, and what is reserved is not its to spend.
[analysts.superset]
dashboard = 0.1

# Buys the cubes, and asks what no dashboard is to ask.
[analysts.admin]
"""


def main() -> int:
    told = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = told.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    port = told.port or free_port()
    password = told.password or secrets.token_urlsafe(9)
    python = environment(folder / "venv")
    schema = data(folder / "randhie") if told.address is None else None
    address, buyer = (told.address or f"dpsql:///{schema}?analyst={name}" for name in ("superset", "admin"))
    settings = {**variables(folder, password), "DPSQL_ADDRESS": address, "DPSQL_BUYER": buyer}
    if schema is not None:
        # where logins are declared, the owner approves the data before they ask
        run([python, "-m", "dpsql", "check", str(schema)], settings, folder / "superset.log")
    say("making the dashboard")
    run([python, str(HERE / "dashboard.py")], settings, folder / "superset.log")
    say("starting Superset")
    server = serve(python, port, settings, folder / "superset.log")
    try:
        wait_until_up(server, port)
        say(
            f"http://127.0.0.1:{port}/superset/dashboard/randhie/  user: admin  password: {password}  (Ctrl-C stops it)"
        )
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=cache / "dpsql-superset", help="where everything is kept")
    parser.add_argument("--port", type=int, help="by default a free one")
    parser.add_argument("--password", help="of the user admin; by default a random one")
    parser.add_argument(
        "--address",
        metavar="dpsql://ANALYST@HOST:8439/DATASET",
        help="ask the RAND data on a server, with the token in DPSQL_TOKEN, in place of a copy of its own",
    )
    return parser.parse_args()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(folder: Path) -> str:
    """A virtual environment with Superset and this project; in one that is there, the project alone is installed again."""
    python, whole = folder / "bin" / "python", folder / "installed"
    if not whole.exists():
        say(f"making a virtual environment in {folder}")
        venv.create(folder, with_pip=True, clear=True)
    say("installing Superset and dpsql")
    known = ["--no-deps"] if whole.exists() else NEEDS
    run([str(python), "-m", "pip", "install", "-q", *known, f"{PROJECT}[superset]"], dict(os.environ))
    whole.touch()
    return str(python)


def data(folder: Path) -> Path:
    """A copy of the data, so that what is spent here is of a budget of its own. Its owner lets a cube cost more, keeps the price of one
    question from dashboards, and says who asks.
    """
    schema = folder / "schema.toml"
    if not folder.exists():
        shutil.copytree(PROJECT / "examples" / "randhie", folder, ignore=shutil.ignore_patterns("*.ledger*", "*.dpsql"))
        text = schema.read_text().replace("cube = { epsilon = 1,", "cube = { epsilon = 2,")
        schema.write_text(text.replace("[privacy]\n", "[privacy]\nreserve = 0.5\n") + LOGINS)
    return schema


def variables(folder: Path, password: str) -> dict[str, str]:
    """The settings that Superset and this example read from the environment."""
    key = folder / "secret_key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(secrets.token_urlsafe(42))
    return {
        **os.environ,
        "SUPERSET_HOME": str(folder),
        "SUPERSET_CONFIG_PATH": str(HERE / "superset_config.py"),
        "SUPERSET_SECRET_KEY": key.read_text(),
        "SUPERSET_PASSWORD": password,
        "SCARF_ANALYTICS": "false",
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(command: list[str], settings: dict[str, str], log: Path | None = None) -> None:
    """Run a step to its end. Its output is shown only if it fails."""
    done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if log is not None:
        with log.open("a") as file:
            file.write(done.stdout)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(command)} failed")


def serve(python: str, port: int, settings: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    """One process with threads: SQL Lab can stop only what its own process runs."""
    command = [python, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", "1", "--worker-class", "gthread"]
    with log.open("ab") as file:
        return subprocess.Popen(
            [*command, "--threads", "8", "--timeout", "120", "superset.app:create_app()"],
            env=settings, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def wait_until_up(server: "subprocess.Popen[bytes]", port: int) -> None:
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    sys.exit("Superset ended; see superset.log in its folder")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; what is half made is made again the next time")
