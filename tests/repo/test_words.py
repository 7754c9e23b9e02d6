"""The words of the product and its pages: the field's, one meaning each (docs/glossary.md).

``python tests/repo/test_words.py autotune/log docs`` lists what is left below some paths.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("autotune", "codegen", "ir", "loopwright", "tracer", "tools", "docs")

# Constants that have one name and several values, module by module. May only fall, too.
ALLOWED_TWICE = {
    "LEAST_BYTES",
    "LONG_EXPRESSION",
}

# In prose (docstrings, comments, messages, pages), whatever the case, over line ends.
IN_PROSE = {
    r"favou?rites?": "default schedule, heuristic",
    r"stairs|staircases?": "causal mask, triangular mask",
    # "turns a view into a copy" and "turned off" are English.
    r"turn(s|ed|ing)?(?!( \S+){0,8}? (into|off|on|out|round)\b)": "iteration, transpose, slice",
    r"ask(s|ed|ing)? (for )?(\S+ ){0,4}early|asked early": "prefetch",
    r"lines ahead": "prefetch distance",
    r"past (the|all) caches?": "non-temporal store",
    r"writ(es|e|ing|ten) (\S+ )?out(?! (of|to))": "unrolled",
    r"side by side": "contiguous, adjacent",
    r"(lie|lies|lying) (far |well )?apart|lies? well": "strided, contiguous",
    r"(first|second|near|nearest|far|last|innermost|outermost) caches?\b": "L1, L2, LLC",
    r"seams?": "choice point",
    r"yardsticks?": "canary kernel",
    r"what is no": "name the thing",
    r"(?!there\b)\w+`* is no (?!longer|more|less|better|worse|faster|slower)\w+": "is not a",
    r"by luck|no luck|chance goes": "random sampling, noise",
}
PROSE = {
    re.compile(rf"\b(?:{pattern}\b)".replace(" ", r"\s+"), re.IGNORECASE): instead
    for pattern, instead in IN_PROSE.items()
}
ANY_PROSE = re.compile("|".join(pattern.pattern for pattern in PROSE), re.IGNORECASE)
LOGGED = {"turned back"}
"""Strings that tuning logs store, and that must stay for their sake."""

# Words of an identifier: ``_asks_early`` has two.
IN_NAMES = {
    r"favou?rites?": "default",
    r"stairs|staircase": "causal, triangular",
    r"turns?|turned|turning": "iteration, transpose, slice",
    r"early": "prefetch",
    r"seams?": "choice point",
    r"yardsticks?": "canary",
}
# Names that say nothing about what they hold.
VAGUE = {"found", "known", "told", "shown", "own", "again"}
# A docstring is a sentence: it doesn't begin with a clause that stands for a noun.
CLAUSE = re.compile(r"(What|Whether|How|Which|Who|Why|Where|Of|By)\b")


class Finding(NamedTuple):
    """One offence: a line of a file, the words, and what they should be."""

    path: str
    line: int
    words: str
    instead: str


def files() -> list[Path]:
    """The sources of the product and its tools, and the pages."""
    sources = [p for part in FOLDERS for p in sorted((ROOT / part).rglob("*.py"))]
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    pages.append(ROOT / "tuning_logs" / "README.md")
    return [*sources, *(p for p in pages if p.name not in ("glossary.md", "measurements.md"))]


def findings(path: Path) -> list[Finding]:
    """Every offence in a file, in the order of its lines."""
    text = path.read_text()
    name = str(path.relative_to(ROOT))
    made: list[Finding] = []
    if path.suffix == ".md":
        text = re.sub(r"```.*?```", lambda m: re.sub(r"\S", " ", m[0]), text, flags=re.DOTALL)
        made += _in_prose(name, 1, text)
        return made
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = set(_docstrings(nodes))
    strings = (f for f in nodes if isinstance(f, ast.JoinedStr))
    pieces = {piece for f in strings for piece in f.values}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline)) if _suspect(text) else []
    for line, words in _comments(tokens):
        made += _in_prose(name, line, words)
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
            made += _in_prose(name, node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A string without a space is data: an operator, a key of the log.
            if " " in node.value.strip() and node.value not in LOGGED and node not in pieces:
                made += _in_prose(name, node.lineno, node.value)
            if node in docstrings and CLAUSE.match(node.value.strip()):
                start = " ".join(node.value.split()[:5])
                made.append(Finding(name, node.lineno, start, 'a sentence: "Returns ..."'))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made += _vague(name, node.lineno, node.id)
        elif isinstance(node, ast.arg):
            made += _vague(name, node.lineno, node.arg)
    words = {t.string for t in tokens if t.type == tokenize.NAME}
    for word in sorted({*words, path.stem}):
        made += (Finding(name, 0, word, instead) for instead in _in_name(word))
    return sorted(made, key=lambda f: f.line)


def _suspect(text: str) -> bool:
    """Whether any comment or name of a source, or what looks like one, may be an offence: finding
    the tokens of all sources takes longer than all the rest."""
    comments = re.sub(r"^[^#\n]*#?[# ]*", "", text, flags=re.MULTILINE)
    return bool(ANY_PROSE.search(comments)) or any(map(_in_name, set(re.findall(r"\w+", text))))


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    """Docstrings, and the strings below constants and fields that describe them."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _comments(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[tuple[int, str]]:
    """(first line, text) of comments; those on lines that follow each other are one."""
    block: list[str] = []
    last = 0
    for token in tokens:
        if token.type != tokenize.COMMENT or token.string.startswith("# noqa"):
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield last - len(block) + 1, "\n".join(block)
            block = []
        block.append(token.string.lstrip("# "))
        last = line
    if block:
        yield last - len(block) + 1, "\n".join(block)


def _in_prose(path: str, line: int, text: str) -> Iterator[Finding]:
    for pattern, instead in PROSE.items() if ANY_PROSE.search(text) else ():
        for match in pattern.finditer(text):
            words = " ".join(text[max(0, match.start() - 25) : match.end() + 20].split())
            yield Finding(path, line + text.count("\n", 0, match.start()), words, instead)


@cache
def _in_name(identifier: str) -> list[str]:
    """Returns what the words of an identifier should be."""
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", identifier)
    return [
        instead
        for pattern, instead in IN_NAMES.items()
        if any(re.fullmatch(pattern, word.lower()) for word in words)
    ]


def _vague(path: str, line: int, identifier: str) -> Iterator[Finding]:
    if identifier in VAGUE:
        yield Finding(path, line, identifier, "a noun for the thing")


def _constants() -> dict[str, dict[str, float]]:
    """Numeric constants of modules: name -> file -> value."""
    made: dict[str, dict[str, float]] = defaultdict(dict)
    for path in (p for p in files() if p.suffix == ".py"):
        # Only the lines of constants: most of a file is functions.
        lines = re.findall(r"^[A-Z_]\w* = (?:\(\n.*\n\)|.*)$", path.read_text(), re.MULTILINE)
        for node in (n for line in lines for n in _parsed(line)):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id.isupper():
                value = _number(node.value)
                if value is not None:
                    made[target.id.strip("_")][str(path.relative_to(ROOT))] = value
    return made


def _parsed(line: str) -> list[ast.stmt]:
    """The statement on a line; none if it is only the beginning of one."""
    try:
        return ast.parse(line).body
    except SyntaxError:
        return []


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) in (int, float) else None
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        try:
            value = eval(compile(ast.Expression(node), "", "eval"), {})
        except (NameError, TypeError):
            return None
        return value if type(value) in (int, float) else None
    return None


def test_the_words_are_those_of_the_field() -> None:
    left = [finding for path in files() for finding in findings(path)]
    assert not left, "\n".join(map(_shown, left))


def test_a_constant_has_one_meaning() -> None:
    several = {n: v for n, v in _constants().items() if len(set(v.values())) > 1}
    more = {n: v for n, v in several.items() if n not in ALLOWED_TWICE}
    assert not more, "one name, several values: " + "; ".join(f"{n}: {v}" for n, v in more.items())


def test_measurements_belong_to_constants_that_exist() -> None:
    page = (ROOT / "docs" / "measurements.md").read_text()
    rows = re.findall(r"^\| (.*?) \| `(.*?)` \|", page, re.MULTILINE)
    gone = [
        f"{path}: {name}"
        for names, path in rows
        for name in re.findall(r"`(\w+)`", names)
        if not (ROOT / path).is_file() or name not in (ROOT / path).read_text()
    ]
    assert rows and not gone, gone


def _shown(finding: Finding) -> str:
    return f"{finding.path}:{finding.line}: {finding.words!r}: {finding.instead}"


if __name__ == "__main__":
    wanted = [(ROOT / p).resolve() for p in sys.argv[1:] or FOLDERS]
    left = [f for p in files() if any(p.is_relative_to(w) for w in wanted) for f in findings(p)]
    print("\n".join(map(_shown, left)))
    print(Counter(f.path.split("/")[0] for f in left))
