"""PyTorch's models as compiled modules; the extra ``[torch]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ..face.compiled_function import CompiledFunction
from ..face.lowered import Lowered
from ..face.user_errors import for_user
from ..ir.errors import UnsupportedError
from ..ir.progress_line import progress
from .kept_models import KeptCode

if TYPE_CHECKING:
    from ..inspect.explain import Explanation
    from ..tracer.frontends.torch.exported import Exported


@overload
def from_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    fallback: Literal[False] = False,
    **options: Any,
) -> TorchModule: ...
@overload
def from_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    fallback: bool,
    **options: Any,
) -> TorchModule | TorchParts: ...
def from_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    fallback: bool = False,
    **options: Any,
) -> TorchModule | TorchParts:
    """Compiles a ``torch.nn.Module`` for arguments like ``args`` and ``kwargs``.

    ``model`` may also be an ``ExportedProgram`` of ``torch.export``; the code of one with dynamic
    shapes is for all sizes in their ranges. The result is called as the
    module is, with tensors or NumPy arrays of the same shapes, and answers in kind: tensors for
    tensors, in the structure (tuples, dicts, dataclasses) that the module gives. The weights are
    frozen: they are constants, packed for the kernels, and a later change of the module does not
    show. ``torch.compile(model, backend="loopwright")`` sees changes, and trains. ``options`` are
    those of ``lw.compile``. Compiling happens at the first call, or at ``lower()``.

    Raises UnsupportedError, which lists all operators and dtypes of the model that are not
    supported, and for modules that write their buffers (batch normalisation while training). With
    ``fallback`` PyTorch runs what is not supported, and the rest is compiled in parts around it.

    >>> import torch
    >>> import loopwright as lw
    >>> f = lw.from_torch(torch.nn.Softplus(), (torch.zeros(2),))
    >>> f(torch.zeros(2))
    tensor([0.6931, 0.6931])
    """
    try:
        try:
            from ..tracer.frontends.torch.exported import export
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "torch":
                raise
            raise UnsupportedError(
                "PyTorch's models need the package torch", hint="pip install loopwright[torch]"
            ) from None
        name = name or type(model).__name__
        with progress(f"importing {name}"):
            exported = export(model, args, kwargs, name)
            try:
                return TorchModule(exported, name, **options)
            except UnsupportedError as error:
                if not fallback:
                    raise
                return TorchParts(exported, error, **options)
    except Exception as error:
        reported = for_user(error)
    raise reported


class TorchModule(KeptCode):
    """A compiled module that is called as the PyTorch module it was made of."""

    def __init__(self, exported: Exported, name: str, **options: Any) -> None:
        super().__init__(exported.imported.module, name, **options)
        self.exported = exported

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the module's result; ``threads=2`` as for compiled functions."""
        threads = None if self.exported.takes("threads") else kwargs.pop("threads", None)
        try:
            call = self.exported.bind(args, kwargs)
        except Exception as error:
            reported = for_user(error)
        else:
            function = self if threads is None else self.with_threads(threads)
            results = CompiledFunction.__call__(function, *call.arrays)
            return call.output(results if isinstance(results, tuple) else (results,))
        raise reported

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Returns the code, to look at or to keep; arguments may be left out."""
        return super().lower(*self._arrays_of(args, kwargs)[0])

    def tune(self, *args: Any, **kwargs: Any) -> Any:
        """Tunes as a compiled function does, on random arrays where no arguments are given;
        keywords that the module does not have are those of ``CompiledFunction.tune``."""
        arrays, options = self._arrays_of(args, kwargs)
        return super().tune(*arrays, **options)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Times every kernel of a call with these arguments."""
        arrays, options = self._arrays_of(args, kwargs)
        return super().explain(*arrays, **options)

    def _arrays_of(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arrays of a call, none for no call, and the keywords that are no arguments
        of the module."""
        arguments = {n: value for n, value in kwargs.items() if self.exported.takes(n)}
        options = {n: value for n, value in kwargs.items() if n not in arguments}
        if not args and not arguments:
            return (), options
        return tuple(self.exported.bind(args, arguments).arrays), options

    def _for_threads(self, count: int | None) -> CompiledFunction:
        return TorchModule(self.exported, self._name, **{**self._options, "threads": count})


class TorchParts:
    """A PyTorch module some of whose operators PyTorch runs; it is called as the module is.

    ``parts`` are the compiled modules between them, each from its first call on. A change of the
    module's weights shows.
    """

    def __init__(self, exported: Exported, error: UnsupportedError, **options: Any) -> None:
        from ..tracer.frontends.torch.exported_parts import ExportedParts

        self.parts: list[KeptCode] = []

        def make(module: Any, name: str) -> KeptCode:
            self.parts.append(KeptCode(module, name, **options))
            return self.parts[-1]

        self._call = ExportedParts(exported, make, error)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the module's result, in tensors for tensors and arrays for arrays."""
        try:
            return self._call(args, kwargs)
        except Exception as error:
            reported = for_user(error)
        raise reported


def backend(graph: Any, inputs: Sequence[Any], **settings: Any) -> Any:
    """Compiles a graph for ``torch.compile(model, backend="loopwright")``.

    Inference and training: forward and backward graphs are both compiled. Where gradients are not
    needed (``torch.no_grad``), parameters and buffers are constants, packed for the kernels;
    writing to them (``optimizer.step()``, ``load_state_dict``) is noticed, and they are packed
    anew. Random numbers (dropout) are drawn by PyTorch's generator before the native call. What is
    not supported is run by PyTorch, operator by operator, and the rest of its graph is compiled in
    parts around it; a line of the log says which operators these are, and how many parts.

    ``options`` of ``torch.compile``: ``fallback=False`` raises UnsupportedError instead, with all
    that is not supported; all others are those of ``lw.compile`` (``log``, ``threads``, ``tune``).
    """
    from ..tracer.frontends.torch import dynamo

    options = dict(settings.pop("options", None) or {}, **settings)
    options.pop("mode", None)
    fallback = options.pop("fallback", True)

    def make(module: Any, name: str) -> Any:
        return KeptCode(module, name, **options)

    return dynamo.backend(graph, inputs, make, fallback)
