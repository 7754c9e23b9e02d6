"""A function compiled for one kind of arguments, to look at or to call; it never compiles again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..extras import extra
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError
from ..tracer import Arguments, Traced, bind, check, placements, to_array, valued_names, write_back
from .user_errors import refuse_other_kind, reports_errors

if TYPE_CHECKING:
    from ..codegen.machine import MachineModel
    from ..driver.built import Built
    from ..inspect.cost import Cost
    from ..inspect.explain import Explanation
    from ..inspect.memory import Memory
    from ..inspect.profile import Profile
    from ..ir.graph.nodes import Module


class Lowered:
    """Code for one kind of arguments: readable at every level, and callable.
    Calling it never compiles; arguments of another kind are an error.

    >>> lw.compile(lambda x: x + 1).lower(lw.f32[2])(np.ones(2, np.float32)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, traced: Traced, built: Built, static: frozenset[str]) -> None:
        self.traced = traced
        self.built = built
        self._static = static

    def as_text(self, level: str = "graph") -> str:
        """Returns the text at ``level``: graph, kernels, loops, program, llvm or asm."""
        return self.built.as_text(level)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"{self.traced.name}, {self.built.summary}\n{self.traced!r}"

    def _repr_html_(self) -> str:
        return extra("lowered_html")(self.traced.name, self.built)

    def compile(self) -> Lowered:
        """Returns this, which is compiled already; JAX has a step here."""
        return self

    @reports_errors
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the result. Raises LoopwrightTypeError for arguments of another kind."""
        traced, arguments = self.traced, self._arguments(args, kwargs)
        leaves = [arguments.values[i] for i in traced.parameters]
        if placements(traced, leaves) != traced.request.placements:
            raise LoopwrightTypeError(
                f"{traced.name} changes arrays, and was compiled for arrays in C order of which no "
                "two share memory",
                hint="call the function itself, which compiles for other ones",
            )
        check(traced, leaves)
        return write_back(traced, leaves, self.built.call([to_array(leaf) for leaf in leaves]))

    @reports_errors
    def save(self, path: str | Path, *, source: bool = True) -> None:
        """Writes the code, its weights and what calls need to one file; ``lw.load`` returns it.
        With ``source`` it can be compiled anew where it is loaded (``compile=True``): the program,
        its schedules, and the weights that the code has in another layout are in the file, too.
        The file is for processors that can do what this one can (``target=`` of ``lw.compile``
        says for which others). Raises UnsupportedError for functions that change arguments, or take
        or return other than arrays in tuples, lists and dicts; OSError if the file cannot be
        written.
        """
        extra("save")(self.traced, self.built, self._static, path, source)

    @reports_errors
    def bundle(self, path: str | Path, **options: Any) -> list[Path]:
        """Writes an object that C programs link, with its header, weights and an example, to a
        folder, or to one for each target; returns the folders. docs/bundles.md has the options."""
        return extra("bundle")(self.traced, self.built, path, options)

    def export_c(self, path: str | Path, **options: Any) -> list[Path]:
        """Writes the same as readable C; returns the folders."""
        return self.bundle(path, c=True, **options)

    def operands(self, *args: Any, **kwargs: Any) -> list[Array]:
        """Returns the arrays among the arguments of a call, as ``built.call`` takes them."""
        arguments = self._arguments(args, kwargs)
        return [to_array(arguments.values[i]) for i in self.traced.parameters]

    def explain(self, *args: Any, seconds: float = 1.0, **kwargs: Any) -> Explanation:
        """Times every kernel where it stands in a call with these arguments.
        Returns what bounds each, and how much of that it reaches; it prints as a table.
        ``seconds`` is the time to spend on it, beside that of measuring the machine once.
        """
        arrays = self.operands(*args, **kwargs)
        machine, traced = self._machine(), self.traced
        return extra("explain")(self.built, arrays, machine, seconds, traced.name, traced.loops)

    def profile(self, *args: Any, seconds: float = 1.0, **kwargs: Any) -> Profile:
        """Times every kernel call in a call with these arguments; see ``CompiledFunction.profile``.

        Raises LoopwrightTypeError for specs in the place of arrays.
        """
        arrays = self.operands(*args, **kwargs)
        machine, name = self._machine(), self.traced.name
        return extra("profile")(self.built, arrays, machine, seconds, name, record=True)

    def memory(self, *held: Module) -> Memory:
        """Returns what memory a call takes; see ``CompiledFunction.memory``. Constants of modules
        that are ``held`` beside the code count as originals of its weights."""
        return extra("memory")(self.built, (self.traced.module, *held), self.traced.name)

    def cost(self) -> Cost:
        """Returns arithmetic, bytes and memory of each line by its loops; nothing is run.

        >>> import loopwright as lw
        >>> lw.compile(lambda x: x @ x).lower(lw.f32[64, 64]).cost().flops
        524288.0
        """
        return extra("cost")(self.built, self.traced.name)

    def _machine(self) -> MachineModel:
        from ..codegen.machine import measured_machine

        parts = self.built.parts
        return measured_machine(None if parts is None else parts.target)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        traced = self.traced
        valued = valued_names(traced.request, self._static)
        given = bind(traced.name, traced.signature, self._static, args, kwargs, valued)
        refuse_other_kind(traced, given.request)
        return given


Compiled = Lowered
"""The type that ``f.lower(...).compile()`` returns."""
