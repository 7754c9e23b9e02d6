"""``loopwright completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

HELP = "a script by which bash, zsh or fish complete commands and options"
DESCRIPTION = "Print a script that completes commands, options and their choices."
EXAMPLES = """\
examples:
  eval "$(loopwright completion bash)"            in ~/.bashrc
  eval "$(loopwright completion zsh)"             in ~/.zshrc, below compinit
  loopwright completion fish | source             in ~/.config/fish/config.fish
"""

Words = dict[tuple[str, ...], list[str]]
"""The words that may follow a command line: sub-commands, options, and choices behind an option."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``completion``."""
    parser.add_argument("shell", choices=_SCRIPTS)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    print(_SCRIPTS[args.shell](dict(words_of(args.top))))
    return 0


def words_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yields the words that may follow each command and each option with choices of a parser."""
    words: list[str] = []
    for action in parser._actions:
        options = [o for o in action.option_strings if o.startswith("--")]
        words += options
        if isinstance(action, argparse._SubParsersAction):
            words += action.choices
            for name, inner in action.choices.items():
                yield from words_of(inner, (*path, name))
        elif action.choices is not None and not options:
            words += map(str, action.choices)
        elif action.choices is not None:
            yield from (((*path, option), [*map(str, action.choices)]) for option in options)
    yield path, words


def _bash(words: Words) -> str:
    commands = " ".join(sorted({p for path in words for p in path if p[0] != "-"}))
    cases = "\n".join(f'    "{" ".join(p)}") words="{" ".join(w)}" ;;' for p, w in words.items())
    return f"""\
_loopwright() {{
  local path="" words="" word
  local current="${{COMP_WORDS[COMP_CWORD]}}" last="${{COMP_WORDS[COMP_CWORD-1]}}"
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case " {commands} " in
      *" $word "*) path="${{path:+$path }}$word" ;;
    esac
  done
  [[ $last == --* ]] && case "${{path:+$path }}$last" in
{cases}
  esac
  [[ $words ]] || case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _loopwright loopwright"""


def _zsh(words: Words) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(words)}"


def _fish(words: Words) -> str:
    lines = [
        f"complete -c loopwright -n '__fish_use_subcommand' -f -a '{' '.join(words[()])}'",
        *(
            f"complete -c loopwright -n '__fish_seen_subcommand_from {path[0]}' -a '{' '.join(w)}'"
            for path, w in words.items()
            if len(path) == 1
        ),
    ]
    return "\n".join(lines)


_SCRIPTS: dict[str, Callable[[Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
