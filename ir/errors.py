"""The two families of errors: the user's program is wrong, or the compiler is.

A user's mistake raises the built-in exception its kind calls for (TypeError, ValueError, ...) in
the subclass here that also carries where the mistake stands and a way out. A mistake of ours is an
``InternalError`` that shows the IR it met.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .span import Span

RAISE_FAILED = "loopwright.raise_failed"
"""The library function that raises the error of a check that failed in compiled code."""


def printable(text: str) -> str:
    r"""Returns ``text`` with escapes in the place of what a terminal would obey, as names from
    files may have it. Ends of lines and tabs stay.

    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


class LoopwrightError(Exception):
    """Base of every error raised on purpose.

    ``message`` says what is wrong in one line, ``span`` is the user's line, ``source`` is that line
    itself with carets under the place, ``notes`` are lines about the operands (name, type, origin),
    ``hint`` is what to write instead: an expression, or lines of code.

    >>> try:
    ...     lw.compile(lambda x: x @ np.ones(4))(np.ones(3))
    ... except lw.LoopwrightError as error:
    ...     print(error.message)
    nn.matmul: inner sizes differ, 3 and 4, in float64[3] @ float64[4]
    """

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        source: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.source = source
        self.notes = notes
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.span is not None:
            lines.append(
                f"  {self.span}" + (f", in {self.span.function}" if self.span.function else "")
            )
        lines += [f"  {line}" for line in self.source]
        lines += [f"  {note}" for note in self.notes]
        if self.hint:
            lines += _hint_lines(self.hint)
        return printable("\n".join(lines))


def _hint_lines(hint: str) -> list[str]:
    """Returns a hint as lines: code of several lines stands below the word."""
    first, *others = hint.split("\n")
    if not others:
        return [f"  try: {first}"]
    return ["  try:", *(f"      {line}".rstrip() for line in (first, *others))]


class LoopwrightTypeError(LoopwrightError, TypeError):
    """Shapes or dtypes do not fit, or a traced value is used where Python needs a real one.

    >>> lw.compile(lambda x: sorted(x))(np.ones(3))
    Traceback (most recent call last):
    loopwright.ir.errors.LoopwrightTypeError: the truth of a traced array is not known...
    """


class LoopwrightValueError(LoopwrightError, ValueError):
    """An attribute or argument has a value the operator cannot take.

    >>> lw.compile(lambda x: x.sum(axis=0) + lw.nn.softmax(x, axis=5))(np.ones(3))
    Traceback (most recent call last):
    loopwright.ir.errors.LoopwrightValueError: nn.softmax: axis 5 is out of range for...
    """


class LoopwrightOverflowError(LoopwrightValueError, OverflowError):
    """A Python int does not fit the dtype of the array that it meets.

    >>> lw.compile(lambda x: x + 300)(np.ones(3, np.uint8))
    Traceback (most recent call last):
    loopwright.ir.errors.LoopwrightOverflowError: the Python int 300 does not fit uint8...
    """


class LoopwrightIndexError(LoopwrightError, IndexError):
    """An index lies outside of its axis, or there are more indices than axes.

    >>> lw.compile(lambda x: x[5])(np.ones(3))
    Traceback (most recent call last):
    loopwright.ir.errors.LoopwrightIndexError: index 5 is outside of axis 0, which has 3...
    """


class LoopwrightAttributeError(LoopwrightError, AttributeError):
    """A traced array has no such attribute or method."""


class UnsupportedError(LoopwrightError, NotImplementedError):
    """The program is right, but uses something Loopwright does not have.

    >>> lw.compile(lambda x: np.histogramdd(x))(np.ones(3))
    Traceback (most recent call last):
    loopwright.ir.errors.UnsupportedError: np.histogramdd does not work on traced...
    """


class SymbolicSizeError(UnsupportedError, TypeError):
    """A constant is needed in the place of a symbolic size."""

    def __init__(self, message: str, **parts: Any) -> None:
        hint = "dynamic=False or numbers instead of names of sizes: one compile for each size"
        parts.setdefault("hint", hint)
        super().__init__(message, **parts)


class ParseError(LoopwrightError, ValueError):
    """A text does not follow the grammar of its IR level."""


class ScheduleError(LoopwrightError, ValueError):
    """A schedule step is illegal for this PrimFunc; the search reads it as "not in the space"."""


@contextmanager
def refused_if_it_fails(foreign: bool = True) -> Iterator[None]:
    """Refuses a schedule from outside for whatever its lowering raises: that is a ScheduleError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ScheduleError) or not foreign:
            raise
        raise ScheduleError(f"{type(error).__name__}: {error}") from error


class LoopwrightOSError(LoopwrightError, OSError):
    """A file cannot be read or written, or is refused: it is not what it has to be, or not the
    user's. ``reason`` says why, in a few words.

    >>> lw.load("/dev/null")
    Traceback (most recent call last):
    loopwright.ir.errors.LoopwrightOSError: /dev/null: a device, not a file...
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, reason: str, number: int | None = None
    ) -> None:
        super().__init__(f"{'the system refuses a call' if path is None else path}: {reason}")
        self.reason = self.strerror = reason
        self.errno = number
        self.filename = path


class LoopwrightMemoryError(LoopwrightError, MemoryError):
    """The system gives no memory for what is compiled, tuned or called.

    >>> issubclass(lw.LoopwrightMemoryError, (MemoryError, lw.LoopwrightError))
    True
    """


class RefusedFileWarning(UserWarning):
    """A file that is kept between processes is done without: others may have written it, or it is
    not a regular file.

    >>> import warnings
    >>> warnings.simplefilter("error", lw.RefusedFileWarning)  # makes it an error
    """


class FrozenWarning(UserWarning):
    """A compiled function has read something while it was traced that it will not read again.

    >>> import warnings
    >>> warnings.simplefilter("error", lw.FrozenWarning)  # makes it an error
    """


class RecompilationWarning(UserWarning):
    """A function is compiled about as often as it is called.

    >>> import warnings
    >>> warnings.simplefilter("error", lw.RecompilationWarning)  # makes it an error
    """


class InternalError(LoopwrightError, RuntimeError):
    """The compiler broke one of its own rules; please report it with the text it shows.

    >>> issubclass(lw.InternalError, (RuntimeError, lw.LoopwrightError))
    True
    """
