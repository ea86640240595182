"""The pictures of the README: a session in the terminal (session.svg) and a chart with error bars (visits.png).

    pip install "dpsql[examples,repl]"
    python examples/pictures.py [FOLDER]

They are written to grammar_notes/pictures, or to FOLDER. The noise is drawn anew, so the numbers differ from run to run.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import dpsql
from dpsql.clients.repl.actions import Leave
from dpsql.clients.repl.banner import banner
from dpsql.clients.repl.commands import act
from dpsql.clients.repl.desk import Desk
from dpsql.clients.repl.editor import STYLE, fragments
from dpsql.clients.repl.interrupts import Interrupts
from dpsql.clients.repl.plain import Plain
from dpsql.clients.repl.screen import Screen

EXAMPLES = Path(__file__).resolve().parent
COLUMNS = 104
ENTRIES = (
    "SELECT coinsurance_pct, COUNT(*) AS people, AVG(income) AS mean_income\n"
    "FROM person JOIN plan USING (plan) GROUP BY coinsurance_pct ORDER BY coinsurance_pct;",
    "SELECT * FROM person;",
    "\\budget",
)
THEME = TerminalTheme(
    (24, 26, 31),
    (220, 223, 228),
    [(24, 26, 31), (224, 108, 117), (152, 195, 121), (229, 192, 123),
     (97, 175, 239), (198, 120, 221), (86, 182, 194), (171, 178, 191)],
    [(130, 137, 151), (240, 113, 120), (165, 210, 130), (235, 203, 139),
     (110, 185, 245), (210, 140, 230), (100, 200, 210), (255, 255, 255)],
)  # fmt: skip
VISITS = """
SELECT coinsurance_pct, AVG(LEAST(md_visits, 20)) AS visits
FROM person_year JOIN person USING (person_id) JOIN plan USING (plan)
GROUP BY coinsurance_pct ORDER BY coinsurance_pct /* dpsql: epsilon=0.5 */"""


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else EXAMPLES.parent / "grammar_notes/pictures"
    with tempfile.TemporaryDirectory() as copied:
        # a ledger beside a copy: the one beside the examples, and the mark that binds them to it, are the reader's
        unused = shutil.ignore_patterns("*.ledger*", "*.dpsql")
        data = shutil.copytree(EXAMPLES / "randhie", Path(copied) / "randhie", ignore=unused)
        with dpsql.connect(data / "schema.toml") as connection:
            (folder / "session.svg").write_text(session(connection), encoding="utf-8")
            chart(connection, folder / "visits.png")


def session(connection: dpsql.Connection) -> str:
    """A session at the prompt as an SVG, coloured as in a terminal."""
    os.environ["COLUMNS"] = str(COLUMNS)
    out = io.StringIO()
    screen = Screen(out, colour=True, moves=False)
    desk = Desk(connection, connection.schema, "default", screen, Plain("", Interrupts()), act, results=out)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text("$ dpsql examples/randhie/schema.toml"))
    screen.tell(banner(desk))
    _shown(console, out)
    for entry in ENTRIES:
        console.print(typed(f"{connection.schema.name}> ", entry), soft_wrap=True)
        try:
            desk.take(entry)
        except Leave:
            break
        _shown(console, out)
    svg = console.export_svg(title="dpsql", theme=THEME)
    # a picture that loads nothing: the reader's own monospaced font stands in
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def _shown(console: Console, out: io.StringIO) -> None:
    console.print(Text.from_ansi(out.getvalue().rstrip("\n")), soft_wrap=True)
    out.seek(0)
    out.truncate()


def typed(prompt: str, entry: str) -> Text:
    """Prompt, and what is typed behind it, in the colours of the editor."""
    styles = {
        f"class:{name}": style.replace("ansibrightblack", "bright_black").replace("ansi", "")
        for name, style in STYLE.items()
    }
    text = Text(prompt, "bold")
    for style, part in fragments(entry):
        text.append(part.replace("\n", f"\n{'... ':>{len(prompt)}}"), styles.get(style, ""))
    return text


def chart(connection: dpsql.Connection, path: Path) -> None:
    """Means of five groups as bars, each with the interval that holds the exact one with 95 % probability."""
    cursor = connection.execute(VISITS)
    intervals = [row[1] for row in cursor.accuracy]
    shares, means = zip(*cursor.fetchall(), strict=True)
    ends = [(mean - bar.low, bar.high - mean) for mean, bar in zip(means, intervals, strict=True)]
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(figsize=(6.2, 3.0), layout="constrained")
        axes.bar([f"{share} %" for share in shares], means, width=0.6, color="#7aa6c2")
        axes.errorbar(
            range(len(means)),
            means,
            yerr=list(zip(*ends, strict=True)),
            fmt="none",
            ecolor="#22313f",
            capsize=5,
            lw=1.4,
        )
        axes.set(xlabel="share of the bill that people pay", ylabel="visits to physicians a year", ylim=(0, None))
        axes.set_title(f"epsilon {float(cursor.privacy.epsilon):g}; the lines are 95 % error of the noise", fontsize=10)
        figure.savefig(path, dpi=110)
        plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
