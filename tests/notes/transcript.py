"""Session fences: command lines after `$`, or Python after `>>>`, run one after the other in a folder of their own."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from dpsql.clients.cli.main import VERBS, main
from tests.notes.datasets import copy_to
from tests.support.noise import ZeroNoise

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_CHECKER = doctest.OutputChecker()
Names = dict[str, object]


@contextlib.contextmanager
def desk() -> Iterator[Names]:
    """A fresh folder with the examples as the working directory, no noise, and names that Python fences share."""
    names: Names = {"__name__": "__main__"}
    with (
        tempfile.TemporaryDirectory(prefix="dpsql-notes-") as folder,
        patch("dpsql.session.session.SystemNoise", ZeroNoise),
    ):
        copy_to(Path(folder))
        state = patch.dict(os.environ, {"XDG_STATE_HOME": str(Path(folder) / "state")})
        with contextlib.chdir(folder), state:
            yield names


def replayed(body: str, names: Names) -> str:
    """The fence as it comes out now; an output that matches what is written, `...` included, is kept as written."""
    if body.lstrip().startswith(">>>"):
        return _python(body, names)
    return "\n".join(_entry(command, written, names) for command, written in _commands(body))


def _commands(body: str) -> Iterator[tuple[str, str]]:
    """(command lines, the output below them) of a fence."""
    command = ""
    output: list[str] = []
    for line in body.split("\n"):
        if line.startswith("$ "):
            if command:
                yield command, "\n".join(output)
            command, output = line, []
        elif line.startswith("> ") and not output:
            command += "\n" + line
        else:
            output.append(line)
    yield command, "\n".join(output)


def _entry(command: str, written: str, names: Names) -> str:
    text = "\n".join(line[2:] for line in command.split("\n"))
    output = "\n".join(line.rstrip() for line in _run(shlex.split(text), names).strip("\n").split("\n"))
    kept = written if _CHECKER.check_output(written + "\n", output + "\n", OPTIONS) else as_written(output, written)
    return f"{command}\n{kept}" if kept else command


def as_written(output: str, written: str) -> str:
    """An output that changed, with the lines that a line with `...` stands for as they were written, each in its turn."""
    varying = [line for line in written.split("\n") if "..." in line]
    lines = output.split("\n")
    for i, line in enumerate(lines):
        if varying and _CHECKER.check_output(varying[0] + "\n", line + "\n", OPTIONS) and varying[0].strip() != "...":
            lines[i] = varying.pop(0)
    return "\n".join(lines)


def _run(words: list[str], names: Names) -> str:
    if words == ["echo", "$?"]:
        return str(names.get("exit code", 0))
    if words[:1] == ["rm"]:
        os.remove(words[1])
        return ""
    if words[:1] != ["dpsql"]:
        raise ValueError(f"a transcript runs dpsql, not {words[:1]}")
    if words[1] not in VERBS and "--mode" not in words:
        words = [*words, "--mode", "table"]  # what a terminal shows
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            names["exit code"] = main(words[1:])
        except SystemExit as left:
            names["exit code"] = left.code
    return output.getvalue()


class _Recorder(doctest.DocTestRunner):
    """Keeps what each example printed, or raised."""

    def __init__(self) -> None:
        super().__init__(optionflags=OPTIONS, verbose=False)
        self.outputs: dict[int, str] = {}

    def report_failure(self, out: object, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        # an exception that another one was expected for comes with its frames, which are of one machine
        self.outputs[test.examples.index(example)] = re.sub(
            r"(?m)(?<=^Traceback \(most recent call last\):\n)(?:  .*\n)+", "    ...\n", got
        )

    def report_unexpected_exception(
        self, out: object, test: doctest.DocTest, example: doctest.Example, exc_info: object
    ) -> None:
        kind, value = exc_info[0], exc_info[1]  # type: ignore[index]
        self.outputs[test.examples.index(example)] = (
            f"Traceback (most recent call last):\n    ...\n{kind.__module__}.{kind.__name__}: {value}\n"
        )


def _python(body: str, names: Names) -> str:
    test = doctest.DocTestParser().get_doctest(body + "\n", {}, "notes", None, None)
    test.globs = names
    recorder = _Recorder()
    recorder.run(test, clear_globs=False, out=lambda text: None)
    lines = []
    for number, example in enumerate(test.examples):
        source = example.source.rstrip("\n").split("\n")
        lines += [f">>> {source[0]}", *(f"... {line}".rstrip() for line in source[1:])]
        printed = as_written(recorder.outputs.get(number, example.want), example.want).rstrip("\n")
        lines += printed.split("\n") if printed else []
    return "\n".join(line.rstrip() for line in lines)
