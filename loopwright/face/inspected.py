"""Reports on compiled functions (times, rates, memory, the code in use), and streams of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ..extras import extra
from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError
from ..tracer import Arguments, Request, Traced, to_array
from ..tracer.core.argument_specs import DTypeSpec, Spec
from .call_signature import CallSignature
from .calls_by_memory import placed
from .lowered import Lowered
from .ready import Specialisation
from .user_errors import reports_errors

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..inspect.explain import Explanation
    from ..inspect.memory import Memory
    from ..inspect.profile import Profile

T = TypeVar("T")


class Inspected:
    """The part of a compiled function that reports on its code, and makes many calls at once
    (``compiled_function.py``)."""

    _name: str
    _signature: CallSignature
    _known: dict[Request, Specialisation]
    _hits: int

    def _repr_html_(self) -> str:
        reasons = {request: made.reason for request, made in self._known.items()}
        return extra("function_html")(self._name, self._hits, reasons)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Returns the code for these arguments."""
        raise NotImplementedError

    def _settled(self, args: Any, kwargs: Any, make: Callable[[Arguments], T]) -> T:
        raise NotImplementedError

    def _trace_call(self, args: Any, kwargs: Any, *options: Any) -> Traced:
        raise NotImplementedError

    def _specialised(self, request: Request) -> Specialisation:
        raise NotImplementedError

    def _trace(self, request: Request, borrowed: Any = None, checks: bool = False, /) -> Traced:
        raise NotImplementedError

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Times every kernel of a call with these arguments; see ``Lowered.explain``.

        ``seconds=1.0`` is the time to spend; it is not passed to the function.
        """
        named = {name: value for name, value in kwargs.items() if name != "seconds"}
        return self.lower(*args, **named).explain(*args, **kwargs)

    def profile(self, *args: Any, seconds: float = 1.0, **kwargs: Any) -> Profile:
        """Times every kernel call of the code that calls with these arguments run.

        Returns time, rates, share of the machine's roof and the user's line of each; it prints as a
        table, the longest first, and ``save("trace.json")`` writes a Chrome trace of some calls.
        ``seconds`` is the time to spend on it, beside that of measuring the machine once. Where
        ``explain`` says of each kernel what it is made of, this says of each call where it is.

        >>> import numpy as np
        >>> import loopwright as lw
        >>> f = lw.compile(lambda x: np.exp(x).sum())
        >>> [call.name for call in f.profile(np.ones(8), seconds=0.01).calls]
        ['exp_sum']
        """
        return self._code_in_use(args, kwargs)[0].profile(*args, seconds=seconds, **kwargs)

    @reports_errors
    def error_bound(self, *args: Any, **kwargs: Any) -> Any:
        """Returns how far each element of the result may lie from the exact one for these
        arguments: arrays of float64 in the structure of the result.

        It is a running error analysis of the fused kernels in use, done in NumPy: their schedules
        say in how many additions a sum is made. inf is where rounding may decide a jump. Raises
        UnsupportedError for code with loops on values, library calls, and kernels that sort, search
        or scatter.

        >>> import numpy as np, loopwright as lw
        >>> f = lw.compile(lambda x: np.exp(x).sum())
        >>> bool(0 < f.error_bound(np.ones(4, np.float32)) < 1e-5)
        True
        """
        lowered, arrays = self.in_use(*args, **kwargs)
        bounds = extra("error_bound")(lowered.built, arrays)
        return lowered.traced.result([bound.error for bound in bounds])

    def memory(self, *args: Any, **kwargs: Any) -> Memory:
        """Returns what memory calls with these arguments take: arrays, or specs of them.

        It prints as a table of the arena, weights, arguments and results, and of the buffers in the
        arena with their lifetimes.

        >>> import loopwright as lw
        >>> f = lw.compile(lambda x: x.sum(axis=0) @ x)
        >>> f.memory(lw.f32[64, 64]).arena
        256
        """
        return self._code_in_use(args, kwargs)[0].memory()

    def map(self, batches: Iterable[Any], *, streams: int | None = None) -> Iterator[Any]:
        """Yields the result of a call for each of ``batches``, in their order.

        ``streams`` calls run at the same time, each on its share of the function's threads; by
        default one for each thread, which gives the most results per second. A batch is the
        argument of a call, a tuple of its arguments, or a dict of named ones; some are taken ahead
        of the results. An exception of a call is raised in the place of its result, and ends it.
        Raises LoopwrightValueError for more streams than threads.

        >>> import numpy as np, loopwright as lw
        >>> total = lw.compile(lambda x: x.sum())
        >>> [float(y) for y in total.map(np.full(3, n, np.float32) for n in range(4))]
        [0.0, 3.0, 6.0, 9.0]
        """
        return extra("streams")(self, streams).map(batches)

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Returns the future result of a call that runs beside others, as those of ``map`` do.

        ``concurrent.futures`` waits for futures, and ``await asyncio.wrap_future(f.submit(x))``
        does in programs of events.

        >>> import numpy as np, loopwright as lw
        >>> total = lw.compile(lambda x: x.sum())
        >>> waiting = [total.submit(np.full(3, n, np.float32)) for n in range(4)]
        >>> [float(future.result()) for future in waiting]
        [0.0, 3.0, 6.0, 9.0]
        """
        return extra("streams")(self, None).submit(*args, **kwargs)

    @reports_errors
    def _code_in_use(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Lowered, list[Any]]:
        """Returns the code that calls with these arguments run, compiled now if there is none, and
        the leaves of the arguments. The code may have lost its weights; see ``release.py``."""
        make = lambda a: (a, self._specialised(a.request))  # noqa: E731
        arguments, made = self._settled(args, kwargs, make)
        leaves = [arguments.values[i] for i in made.traced.parameters]
        if not any(isinstance(leaf, Spec | DTypeSpec) for leaf in leaves):
            made = placed(self._specialised, arguments.request, leaves)
        return Lowered(made.traced, made.built, self._signature.static), leaves

    def in_use(self, *args: Any, **kwargs: Any) -> tuple[Lowered, list[Array]]:
        """Returns the code that calls with these arguments run, compiled now if there is none, and
        the arrays that it takes. Raises LoopwrightTypeError for specs in the place of arrays."""
        lowered, leaves = self._code_in_use(args, kwargs)
        if any(isinstance(leaf, Spec | DTypeSpec) for leaf in leaves):
            raise LoopwrightTypeError(f"{self._name} needs arrays here, not specs of arrays")
        traced, built = lowered.traced, lowered.built
        if not built.has_weights:
            traced = self._trace(traced.request)
            from . import release

            built = release.restored(built, traced.module)
        return Lowered(traced, built, self._signature.static), [to_array(v) for v in leaves]

    def traced_with_checks(self, args: Any, kwargs: Any) -> tuple[Traced, list[Array] | None]:
        """Returns a trace that checks indices, and the arrays it takes, if any."""
        traced = self._trace_call(args, kwargs, None, True)
        return traced, self._signature.arrays(traced, args, kwargs)
