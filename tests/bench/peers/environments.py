"""The peers, and the environment that each of them runs in."""

from __future__ import annotations

import platform
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: its script, and what its environment is made of."""

    name: str
    script: str
    requirements: tuple[str, ...]


PEERS = (
    Peer("smartnoise-sql", "smartnoise_peer.py", ("smartnoise-sql==1.0.10",)),
    Peer("opendp", "opendp_peer.py", ("opendp==0.16.0", "numpy>=2,<3")),
    Peer("python-dp", "pydp_peer.py", ("python-dp==1.1.5", "numpy>=2,<3")),
    Peer("diffprivlib", "diffprivlib_peer.py", ("diffprivlib==0.6.6", "scikit-learn<1.6")),
)


def python(peer: Peer, cache: Path) -> Path:
    """The interpreter of the peer's environment, made once for these requirements."""
    folder = cache / peer.name
    made = folder / "made-of.txt"
    wanted = "\n".join((platform.python_version(), *peer.requirements))
    interpreter = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not made.exists() or made.read_text() != wanted:
        print(f"installing {', '.join(peer.requirements)} in {folder}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements]
        run([str(interpreter), *install])
        made.write_text(wanted)
    return interpreter


def run(command: list[str]) -> None:
    """Raises subprocess.CalledProcessError, which has what was said, or OSError."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def reason(failed: subprocess.CalledProcessError | OSError) -> str:
    """The last line of what was said."""
    text = getattr(failed, "stderr", None) or str(failed)
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it failed without a word")
