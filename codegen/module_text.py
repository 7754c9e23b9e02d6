"""The LLVM text of a module, which is written when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ..ir.loop.nest import Nest


class ModuleText:
    """Equal ``identity`` means equal text.

    ``stored`` is the name of its object code's entry in the disk cache, "" if it depends on the
    text alone; ``label`` tells people what the entry is.

    >>> ModuleText("a", lambda: "define void @f() { ret void }").text
    'define void @f() { ret void }'
    """

    __slots__ = ("_text", "_write", "identity", "label", "stored")

    def __init__(
        self, identity: str, write: Callable[[], str], stored: str = "", label: str = "kernel"
    ) -> None:
        self.identity = identity
        self.stored = stored
        self.label = label
        self._write = write
        self._text: str | None = None

    @staticmethod
    def of(text: str) -> ModuleText:
        """Returns a text that is written already."""
        return ModuleText(text, lambda: text)

    @property
    def text(self) -> str:
        return self.read()

    def read(self) -> str:
        """Returns the text."""
        if self._text is None:
            self._text = self._write()
        return self._text

    def __reduce__(self) -> tuple[Callable[[str], ModuleText], tuple[str]]:
        return ModuleText.of, (self.text,)


class KernelText(Protocol):
    """The part of a kernel that a program needs: the symbol ``name`` and the LLVM module of it."""

    @property
    def name(self) -> str: ...

    @property
    def code(self) -> ModuleText: ...


@runtime_checkable
class SizedKernel(KernelText, Protocol):
    """A kernel of which it is known how much it does: ``stores`` are executed by a call."""

    @property
    def stores(self) -> int: ...

    @property
    def parallel(self) -> bool: ...


@runtime_checkable
class NestKernel(KernelText, Protocol):
    """A kernel whose loop nest can be looked at."""

    @property
    def nest(self) -> Nest: ...
