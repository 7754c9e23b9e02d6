"""A compiled function: the one file that sees every layer, from a call to its result.

::

    __call__        arrays of exactly the kind of the last call: run its code
      _call         a kind of call seen before: look its code up; else sort the arguments
        trace       tracer: the function's graph IR                      -> Traced
        build       pipeline: graph passes, schedules from the log, code -> Built

What only compiling and tuning need is imported inside of methods: the import of the package takes
half the time so.
"""

from __future__ import annotations

import functools
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .. import tracer as tracing
from ..codegen.target import Target
from ..config import MEASURE, Config
from ..driver.options import Precision, check_threads, error_growth
from ..ir.errors import LoopwrightTypeError
from ..ir.pass_context import PassContext
from ..ir.progress_line import progress
from ..tracer import Arguments, Borrowed, Request, Traced, any_traced, as_called, to_array, trace
from .announce import announce, dump_prefix, pass_context
from .background_options import Background, tune_option
from .call_signature import CallSignature, Copied, names_of
from .calls_by_memory import ByMemory
from .inspected import Inspected
from .log_context import log_in_force
from .lowered import Lowered
from .ready import NOTHING, CacheInfo, Ready, Specialisation
from .user_errors import for_user, reports_errors

if TYPE_CHECKING:
    from ..autotune.budget import Budget
    from ..driver.built import Built
    from ..tracer.donation import Ending
    from .dynamic import Option
    from .guards import Guard

T = TypeVar("T")

MOST_RECENT = 4
"""Number of recent kinds of calls that are tried before the key of a call is computed."""


class CompiledFunction(Inspected, Copied):
    """A function that is traced and compiled for each kind of arguments, and keeps its code.

    >>> f = lw.compile(lambda x: x + 1)
    >>> isinstance(f, lw.CompiledFunction)
    True
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        static_argnames: Sequence[str] | str = (),
        donate_argnames: Sequence[str] | str = (),
        log: str | Path | None = None,
        threads: int | None = None,
        precision: Precision | None = None,
        target: Target | str | None = None,
        tune: str | Background | None = None,
        measure: Literal["auto", "never"] | None = None,
        passes: PassContext | None = None,
        dynamic: Option = "auto",
        capture: bool = True,
    ) -> None:
        check_threads(threads)
        if precision is not None:
            error_growth(precision)
        names = names_of(static_argnames)
        functools.update_wrapper(self, function)
        self.function = function
        self.log = Path(log) if log is not None else None
        self.threads = threads
        self.precision = precision
        self.target = Target.named(target)
        self.passes = passes or PassContext()
        self._tune = tune_option(tune)
        if measure not in (None, *MEASURE):
            raise LoopwrightTypeError(f"measure is {' or '.join(MEASURE)}, not {measure!r}")
        self.measure = measure
        self.capture = capture
        self._background: Any = None
        self._name = getattr(function, "__name__", type(function).__name__)
        self._signature = CallSignature(function, self._name, names, dynamic)
        self._takes_threads = self._signature.takes("threads")
        self._takes_out = self._signature.takes("out")
        self._donated = names_of(donate_argnames)
        self._ending: Ending | None = None
        if self._donated:
            from ..tracer.donation import Donating

            others = {*self._signature.parameters} - {*names}
            self._ending = Donating(self._name, self._donated, others)
        self._others: dict[int | str, CompiledFunction] = {}
        self._known: dict[Request, Specialisation] = {}
        self._ready: dict[Any, Ready] = {}
        self._recent: dict[tuple[str, ...], tuple[Ready, ...]] = {}
        self._last = NOTHING
        self._misses = self._hits = 0
        self._changes: list[str] = []  # of what it captures: the paths
        self._changed = ""  # the last of them, until code is made for it
        self.takes_any_kind = False  # or was warned of a storm of recompilations
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<compiled {self._name}, {len(self._known)} specialisations>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Binds a method: the instance is the first argument, whose arrays are traced."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the function's result on these arguments; compiles first if their kind is new.

        ``threads=2`` sets how many threads this call may use, as ``with_threads`` does, unless the
        function has an argument of that name. ``out=`` takes arrays of the result's types, in its
        containers; the result is written into them, and they are returned. They must be writeable
        and share no memory with other arguments, unless they are the same arrays.
        """
        try:
            if not kwargs:
                last = self._last
                results = last.direct(*args)
                if results is not None:
                    self._hits += 1
                    return results[0] if last.finish is None else last.finish(results)
            elif "threads" in kwargs and not self._takes_threads:
                count = kwargs.pop("threads")
                return (self if count is None else self.with_threads(count))(*args, **kwargs)
            elif "out" in kwargs and not self._takes_out:
                return (self._others.get("out") or self._with_out())(*args, **kwargs)
            return self._call(args, kwargs)
        except Exception as error:
            reported = for_user(error)
        __tracebackhide__ = True  # IPython passes this frame over
        raise reported

    def with_threads(self, count: int) -> CompiledFunction:
        """Returns the function for ``count`` threads, with the schedules that are best on so many.

        ``f(x, threads=1)`` is ``f.with_threads(1)(x)``. Both keep their code. At most 256.

        >>> import numpy as np
        >>> import loopwright as lw
        >>> f = lw.compile(lambda x: x + 1)
        >>> f(np.zeros(2, np.float32), threads=1)
        array([1., 1.], dtype=float32)
        """
        check_threads(count)
        if count == self.threads:
            return self
        with self._lock:
            other = self._others.get(count)
            if other is None:
                other = self._others[count] = self._for_threads(count)
            other.log = self.log
        return other

    def options(self) -> dict[str, Any]:
        """Returns the options that it was made with, as ``lw.compile`` takes them."""
        return {
            "static_argnames": tuple(sorted(self._signature.static)),
            "donate_argnames": self._donated,
            "log": self.log,
            "threads": self.threads,
            "precision": self.precision,
            "target": self.target,
            "tune": self._tune,
            "measure": self.measure,
            "passes": self.passes,
            "dynamic": self._signature.dynamic_option,
            "capture": self.capture,
        }

    def _for_threads(self, count: int | None) -> CompiledFunction:
        options: dict[str, Any] = {**self.options(), "threads": count}
        return CompiledFunction(self.function, **options)

    def _with_out(self) -> CompiledFunction:
        """Returns the function that takes ``out=``, and writes its result there."""
        from ..tracer.donation import WrittenInto

        with self._lock:
            if "out" not in self._others:
                other = self._others["out"] = self._for_threads(self.threads)
                other._ending, other._takes_out, other.log = WrittenInto(), True, self.log
                other._signature.signature = WrittenInto.signature(self._signature.signature)
            return self._others["out"]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recent, names = self._recent, tuple(kwargs)
        for ready in recent.get(names, ()):
            results = ready.direct(*args, **kwargs)
            if results is not None:
                self._hits += 1
                if not kwargs:
                    self._last = ready
                    if self._recent is not recent:  # swapped in the meantime
                        self._last = NOTHING
                return results[0] if ready.finish is None else ready.finish(results)
        quick = self._signature.quick_key(args, kwargs)
        if quick is None:
            args, kwargs = tracing.without_iterators(args, kwargs) or (args, kwargs)
        if quick is not None:
            ready = self._ready.get(quick[0])
            if ready is not None and (ready.guard is None or ready.guard.holds()):
                self._hits += 1
                recent[names] = (ready, *recent.get(names, ())[: MOST_RECENT - 1])
                return ready(quick[1])
        elif any_traced(args) or any_traced(kwargs.values()):
            if self._ending is None:
                return as_called(self.function)(*args, **kwargs)  # while another one is traced
            return self._ending.traced(as_called(self.function), args, kwargs)
        arguments, made = self._settled(args, kwargs, self._counted)
        request = arguments.request
        leaves = [arguments.values[i] for i in made.traced.parameters]
        checked = made.traced.is_checked
        run = ByMemory(made, self._specialised, request) if checked else None
        if quick is not None and tracing.same_leaves(quick[1], leaves):
            self._ready[quick[0]] = Ready.of(made, args, kwargs, self._signature, run)
            if self._lookup(request) is not made:  # swapped in the meantime
                self._forget_ready()
        if run is not None:
            return run(leaves)
        return made.traced.result(made.built.call([to_array(leaf) for leaf in leaves]))

    def _settled(self, args: Any, kwargs: Any, make: Callable[[Arguments], T]) -> T:
        return self._signature.settled(args, kwargs, make, self._forget_ready, self._lookup)

    def _counted(self, arguments: Arguments) -> tuple[Arguments, Specialisation]:
        """Returns the code for arguments, beside them, and counts a hit if it was there."""
        made = self._lookup(arguments.request)
        self._hits += made is not None
        return arguments, made or self._compile(arguments.request)

    def _specialised(self, request: Request) -> Specialisation:
        return self._lookup(request) or self._compile(request)

    def _lookup(self, request: Request) -> Specialisation | None:
        """Returns the code for a request. That of a function that changes no array serves every
        placement of its operands in memory. Code whose guard fails is forgotten."""
        made = self._known.get(request)
        if made is None and request.placements:
            made = self._known.get(request.with_placements(()))
            made = None if made is None or made.traced.depends_on_memory else made
        if made is None or made.guard is None or made.guard.holds():
            return made
        with self._lock:
            if self._known.get(made.traced.request) is made:
                del self._known[made.traced.request]
                self._changes.append(made.guard.changed)
                self._changed = made.guard.changed
                self._forget_ready()
        return None

    def _compile(self, request: Request) -> Specialisation:
        from . import recompilation, release

        with self._lock:
            if (made := self._lookup(request)) is not None:
                return made
            made = self._made(request, Config.read())
            self._misses += 1
            self._known[made.traced.request] = made
            release.give_back(made.built)
        self.takes_any_kind = self.takes_any_kind or recompilation.warn_of_storm(
            self._name, [*self._known], self._hits, self._changes
        )
        return made

    def _made(self, request: Request, config: Config) -> Specialisation:
        from . import recompilation, release

        begun = time.perf_counter()
        borrowed = Borrowed()
        traced, guard = self._guarded(request, borrowed)
        tracing = time.perf_counter() - begun
        self._signature.dynamic.traced(traced)
        dump = dump_prefix(self._name, config)
        tune = self._tune or tune_option(config.tune)
        if tune == "quick" and self.target in (None, Target.host()):
            self._measure_few(traced, config)
        built = self._build(traced, config, dump)
        borrowed.check(self._name)
        seconds = time.perf_counter() - begun
        reason = recompilation.reason_for(request, self._known, self._changed)
        self._changed = ""
        made = Specialisation(traced, built, reason, seconds, guard, tracing)
        earlier = (other.reason for other in self._known.values())
        is_first = recompilation.is_first_symbolic(reason, earlier)
        announce(self._name, made, config, dump, is_first)
        if not isinstance(tune, Background) or not built.kernels:
            return release.kept(made)
        # With its weights: tuning builds it again and again.
        install = functools.partial(self._install, traced.request)
        log = log_in_force(self.log, config.log)
        self.background.start(self._name, built, log, tune, install)
        return made

    def _measure_few(self, traced: Traced, config: Config) -> None:
        """Measures a few candidates of the kernels that the log does not know."""
        from ..tuning.tune import measure_few

        with progress(f"tuning {traced.name}"):
            measure_few(traced.module, **self.build_options(config))

    def _install(self, request: Request, old: Built, new: Built) -> bool:
        """Uses another build for a request from the next call on, if ``old`` is in use now."""
        with self._lock:
            made = self._known.get(request)
            if made is None or made.built is not old:
                return False
            reason = "tuned in the background"
            self._known[request] = replace(made, built=new, reason=reason)
            self._forget_ready()
        return True

    def _forget_ready(self) -> None:
        self._ready.clear()
        self._recent = {}
        self._last = NOTHING

    @property
    def background(self) -> Any:
        """The background tuner of this function; see ``tune=`` of ``lw.compile``."""
        if self._background is None:
            from ..extras import extra

            self._background = extra("background")()
        return self._background

    def _trace(self, request: Request, borrowed: Any = None, checks: bool = False, /) -> Traced:
        checks = checks or Config.read().check_index
        ending = self._ending
        signature = self._signature.signature
        name, capture = self._name, self.capture
        return trace(self.function, signature, request, name, borrowed, checks, ending, capture)

    def _guarded(self, request: Request, borrowed: Borrowed) -> tuple[Traced, Guard | None]:
        """Returns a trace, and a guard that holds until what it was made from changes."""
        from .guards import guarded

        return guarded(self.function, request, lambda: self._trace(request, borrowed))

    def _trace_call(self, args: Any, kwargs: Any, *options: Any) -> Traced:
        return self._settled(args, kwargs, lambda a: self._trace(a.request, *options))

    @reports_errors
    def _trace_for_code(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], borrowed: Borrowed
    ) -> tuple[Traced, Guard | None]:
        """Traces as ``trace`` does."""
        return self._settled(args, kwargs, lambda a: self._guarded(a.request, borrowed))

    def _build(self, traced: Traced, config: Config, dump: Path | None = None) -> Built:
        from ..driver import failures, pipeline

        options = self.build_options(config, dump)
        try:
            with progress(f"compiling {traced.name}"):
                return pipeline.build(traced.module, updates=traced.updates, **options)
        except Exception as error:
            if self._signature.dynamic.is_automatic(traced.request):
                raise  # the sizes of the call are compiled instead
            reported = failures.with_repro(error, traced.name, traced.module, options, config)
            if reported is error:
                raise
            raise reported from error

    def build_options(self, config: Config, dump: Path | None = None) -> dict[str, Any]:
        """Returns the options of a build: the function's own settings, else those of ``config``."""
        return {
            "target": self.target,
            "log": log_in_force(self.log, config.log),
            "threads": self.threads or config.threads,
            "precision": self.precision or config.precision,
            "measure": self.measure or config.measure,
            "passes": pass_context(self.passes, config, dump),
        }

    @reports_errors
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Returns the graph IR for these arguments: arrays, or specs (``lw.f32[64, 784]``).

        >>> import numpy as np
        >>> import loopwright as lw
        >>> f = lw.compile(lambda x: np.exp(x) + 1)
        >>> print(f.trace(lw.f32[4]).as_text(spans=False))
        def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
          %0 = exp(%x);
          add(%0, 1f)
        }
        """
        return self._trace_call(args, kwargs)

    @reports_errors
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Returns the code for these arguments, to look at or to keep; see ``Lowered``."""
        if "out" in kwargs and not self._takes_out:
            return self._with_out().lower(*args, **kwargs)
        traced = self.trace(*args, **kwargs)
        return Lowered(traced, self._build(traced, Config.read()), self._signature.static)

    @reports_errors
    def tune(
        self,
        *args: Any,
        budget: str | float | Budget | None = "30s",
        trials: int | None = None,
        log: str | Path | None = None,
        seed: int = 0,
        strategy: str = "guided",
        schedules: Mapping[str, Any] | None = None,
        runner: Any = None,
        weights: Mapping[Any, float] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Explore schedules for these arguments, append to the log, and use the best from now on.

        ``budget`` is a time (``"30s"``, ``"5m"``, or seconds), ``trials`` a number of candidates;
        whichever is used up first ends the search. ``"quick"`` measures the eight candidates of
        each kernel that the cost model rates best. ``seed`` makes the search draw other candidates,
        ``strategy`` is how it does: guided, random or grid.

        ``schedules`` hands schedules of yours, by the name of a kernel (``lower(...).as_text(
        "kernels")`` shows them): an ``lw.schedule.Schedule``, a list of its steps, or a function of
        the kernel's PrimFunc that gives one. They are measured first, checked and logged.

        ``runner`` is where candidates are measured, if not here: ``"tcp://host:port"`` where
        ``loopwright runner`` listens (several with commas; ``LOOPWRIGHT_RUNNER_KEY`` names the file
        of the key), or a Dask cluster, as ``"dask://host:port"`` or a
        ``distributed.Client``. Records bear the key of its machines.

        A function with symbolic sizes is tuned for all of them: candidates are measured at a few
        sizes, and its kernels choose between the best by a comparison or two. ``weights`` say which
        sizes count and how much, as ``{1: 0.8, 128: 0.2}``; several sizes are tuples, in the order
        in which the arguments have them.

        At the end the function runs on these arguments, as it was and as it is now; what is slower
        there is rolled back. Answers with the search's report.
        """
        started = time.monotonic()
        from ..autotune.request import TuneRequest
        from ..tuning.tune import limits_of, tune
        from . import release

        config = Config.read()
        if log is not None:
            self.log = Path(log)
        borrowed = Borrowed()
        traced, guard = self._trace_for_code(args, kwargs, borrowed)
        begun = time.perf_counter()
        tuned = tune(
            traced.module,
            self._signature.arrays(traced, args, kwargs),
            TuneRequest(limits_of(budget, trials), strategy, seed),
            schedules=schedules,
            runner=runner,
            weights=weights,
            begun=started,
            updates=traced.updates,
            **self.build_options(config),
        )
        borrowed.check(self._name)
        with self._lock:
            seconds = time.perf_counter() - begun
            self._signature.dynamic.traced(traced)
            made = Specialisation(traced, tuned.built, "tuned", seconds, guard)
            self._known[traced.request] = release.kept(made)
            self._forget_ready()
        return tuned.report

    def cache_info(self) -> CacheInfo:
        """Returns hits and misses so far, the signatures compiled, and why each was compiled."""
        reasons = {request: made.reason for request, made in self._known.items()}
        return CacheInfo.of(self._hits, self._misses, reasons)

    def cache_clear(self) -> None:
        """Forgets all compiled code; the next call traces again and reads captured arrays anew."""
        with self._lock:
            self._others.clear()
            self._known.clear()
            self._changes.clear()
            self._forget_ready()
            self._misses = self._hits = 0
