"""dpsql help, and dpsql completion, which writes what a shell needs to complete words."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from dpsql.clients.cli.main import HELPING, SERVING, VERBS, parser_of_questions
from dpsql.clients.terminal.show import MODES
from dpsql.core.errors import error

Options = Mapping[str, Sequence[str]]
"""Options of each verb."""
SHELLS = ("bash", "zsh", "fish")
_BASH = """\
_dpsql() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    case "$before" in
        --mode) COMPREPLY=($(compgen -W "{modes}" -- "$word")); return ;;
        completion) COMPREPLY=($(compgen -W "{shells}" -- "$word")); return ;;
        help) COMPREPLY=($(compgen -W "{verbs}" -- "$word")); return ;;
    esac
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="{options}" ;;
    esac
    if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); return; fi
    if [[ $COMP_CWORD -eq 1 ]]; then COMPREPLY=($(compgen -W "{verbs}" -- "$word")); fi
    COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _dpsql dpsql
"""
_ZSH = """\
#compdef dpsql
autoload -U +X bashcompinit && bashcompinit
"""
"""zsh reads what is written for bash."""


def run(verb: str, given: Sequence[str]) -> int:
    """Run one of the two verbs, and return the exit code. Raises 802."""
    if verb == "completion":
        print(script(given[0] if given else ""), end="")
        return 0
    parsers = _parsers()
    if given and given[0] not in parsers:
        raise error(802, f"there is no verb {given[0]!r}", hint=f"write one of {', '.join(parsers)}")
    (parsers[given[0]] if given else parser_of_questions()).print_help()
    return 0


def _parsers() -> Mapping[str, argparse.ArgumentParser]:
    from dpsql.clients.cli.serving import serve_parser, user_parser
    from dpsql.clients.cli.verbs import parser_of

    return {**{verb: parser_of(verb) for verb in VERBS}, "serve": serve_parser(), "user": user_parser()}


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """The long options of a parser."""
    return [name for action in parser._actions for name in action.option_strings if name.startswith("--")]


def script(shell: str) -> str:
    """The text that a shell reads to complete words: verbs, options of each verb, modes, and files. Raises 802."""
    asking = [*options_of(parser_of_questions()), "-c", "-f"]
    by_verb = {verb: options_of(parser) for verb, parser in _parsers().items()}
    verbs = [*VERBS, *SERVING, *HELPING]
    match shell:
        case "bash" | "zsh":
            return _ZSH * (shell == "zsh") + _bash(verbs, asking, by_verb)
        case "fish":
            return _fish(verbs, asking, by_verb)
    raise error(802, f"{shell!r} is no shell that dpsql knows", hint=f"write dpsql completion {' | '.join(SHELLS)}")


def _bash(verbs: Sequence[str], asking: Sequence[str], by_verb: Options) -> str:
    cases = "\n".join(f'        {verb}) words="{" ".join(options)}" ;;' for verb, options in by_verb.items())
    return _BASH.format(
        modes=" ".join(MODES), shells=" ".join(SHELLS), verbs=" ".join(verbs), cases=cases, options=" ".join(asking)
    )


def _fish(verbs: Sequence[str], asking: Sequence[str], by_verb: Options) -> str:
    lines = [f"complete -c dpsql -n __fish_use_subcommand -a '{' '.join(verbs)}'"]
    lines += _fish_options(asking, f"not __fish_seen_subcommand_from {' '.join(by_verb)}")
    for verb, options in by_verb.items():
        lines += _fish_options(options, f"__fish_seen_subcommand_from {verb}")
    lines.append(f"complete -c dpsql -n '__fish_seen_subcommand_from completion' -f -a '{' '.join(SHELLS)}'")
    lines.append(f"complete -c dpsql -n '__fish_seen_subcommand_from help' -f -a '{' '.join(by_verb)}'")
    return "\n".join(lines) + "\n"


def _fish_options(options: Sequence[str], condition: str) -> list[str]:
    found = []
    for option in options:
        written = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        modes = f" -x -a '{' '.join(MODES)}'" if option == "--mode" else ""
        found.append(f"complete -c dpsql -n '{condition}' {written}{modes}")
    return found
