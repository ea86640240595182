"""python -m tests.long VERB [options]: run one of the long checks; the verb says what it found, and fails where that is a fault."""

from __future__ import annotations

import sys
from importlib import import_module

VERBS = {
    "neighbours": "statements on databases with and without one person, over schemas with two ways to a person",
    "server": "messages of PostgreSQL's protocol before and after login, right and wrong, said to a running server",
    "totality": "random expressions over the extremes of every type, on which the engine must not raise",
    "weights": "fits of a model with and without one person: a lower bound of what its weights lose, beside what is charged",
}
"""By name what each does; it is the `main` of the module of that name."""


def main(arguments: list[str]) -> int:
    verb = arguments[0] if arguments else ""
    if verb not in VERBS:
        print("\n".join(["python -m tests.long VERB", *(f"  {name:<12}{what}" for name, what in VERBS.items())]))
        return 2
    found: int = import_module(f"tests.long.{verb}").main(arguments[1:])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
