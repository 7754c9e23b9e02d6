"""A program of its own that shows a failure: ``lw.debug.write_repro``, and what a repro runs.

A repro is a Python file with the program as IR text, seeds or values of its arrays, versions and
the machine it was made for. It runs nothing but this package on that text.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import pprint
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..autotune.selection.select import Chosen, Origin
from ..autotune.workload import workload_of
from ..codegen.llvm.engine import llvm_version
from ..codegen.target import Target
from ..driver.built import Built
from ..driver.pipeline import build
from ..ir.dataclass import dataclass
from ..ir.dims import as_int
from ..ir.dtype import Array
from ..ir.graph.nodes import Module
from ..ir.graph.parser import parse_module
from ..ir.graph.printer import as_text, constants_of
from ..ir.graph.types import TensorType
from ..ir.pass_context import PassContext
from ..ir.schedule.steps import Schedule
from .compare import compare_build
from .minimise import random_values

CALLS = 50
"""Number of calls of which a repro of slow code takes the median."""


@dataclass(frozen=True)
class Repro:
    """The contents of a repro file; running the file calls ``main``.

    ``shows`` is "compile" (it cannot be), "results" (they are wrong) or "time". ``failure`` names
    the error and where it arose, ``words`` are its message. ``constants`` and ``inputs`` are
    ``(dtype, shape, seed)`` or ``(dtype, shape, data)``. ``schedules`` are steps by the hash of the
    workload, ``taken`` choices in the graph by site; both are what logs said.
    """

    shows: str
    failure: str
    words: str
    program: str
    constants: Mapping[str, tuple[Any, ...]]
    inputs: Sequence[tuple[Any, ...]]
    target: Mapping[str, Any]
    threads: int
    precision: Any = None
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    schedules: Mapping[str, Any] = field(default_factory=dict[str, Any])
    verify: int = 0
    versions: str = ""
    disabled: Sequence[str] = ()
    opt_level: int = 2

    def module(self) -> Module:
        """The program."""
        constants = {name: _array(*data) for name, data in self.constants.items()}
        return parse_module(self.program, constants=constants)

    def build(self) -> Built:
        """Compiles the program. Raises the failure that the repro is about, if compiling fails."""
        chosen = {
            workload: Chosen(Schedule.from_json(steps), Origin.EXACT, "repro")
            for workload, steps in self.schedules.items()
        }
        return build(
            self.module(),
            target=target_of(self.target),
            threads=self.threads,
            precision=self.precision,
            passes=PassContext(self.verify, None, self.disabled, self.opt_level),
            taken=dict(self.taken),
            schedules=chosen,
        )

    def arrays(self) -> list[Array]:
        """The arguments."""
        return [_array(*data) for data in self.inputs]

    def main(self) -> int:
        """Returns 1 if the failure still occurs, 0 if not, 2 if that cannot be decided, and prints
        it. Code for another kind of machine is compiled, but not run."""
        _tell(f"written by {self.versions}; running {versions()}")
        try:
            built = self.build()
        except Exception as error:
            traceback.print_exc()
            failure = failure_of(error)
            same = "the same" if failure == self.failure else "another"
            _tell(f"it fails to compile: {same} failure as when this was written ({failure})")
            return 1
        if self.shows == "compile":
            _tell("it compiles now")
            return 0
        if not _runs_here(target_of(self.target)):
            _tell(f"it compiles; its code is for {self.target['isa']} and cannot run here")
            return 2
        if self.shows == "time":
            took = median_seconds(built, self.arrays())
            _tell(f"{took * 1e6:.4g} us a call; {self.words} when this was written")
            return 0
        comparison = compare_build("repro", built, self.arrays())
        _tell(comparison)
        return int(comparison.differs)

    def text(self) -> str:
        """Returns the text of the file."""
        values = {k: v for k, v in asdict(self).items() if k not in ("program", "words")}
        literal = "\n".join(
            f"    {key}={_indented(pprint.pformat(value, width=90, sort_dicts=False))},"
            for key, value in values.items()
        )
        about = {
            "compile": "cannot be compiled",
            "results": "gives wrong results",
            "time": "is slower than it should be",
        }[self.shows]
        return _FILE.format(
            about=about,
            failure=self.failure,
            words=self.words.replace("\\", "/").replace('"""', "'''"),
            program=_literal(self.program),
            literal=literal,
            words_literal=repr(self.words),
        )

    def write(self, path: Path) -> Path:
        """Writes the file, whole or not at all. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(self.text())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
        return path

    @property
    def file_name(self) -> str:
        """Returns a name that is the same for the same failure of the same program."""
        text = f"{self.shows} {self.failure} {self.program}"
        return f"repro-{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"


_FILE = '''"""A program that {about} ({failure}).

{words}

`python` this file: it ends with 1 if that is still so, with 0 if not. It holds the program, not the
code it came from: names are gone, and arrays are random unless there are values in it.
"""

import sys

from loopwright.debug import Repro

PROGRAM = {program}

REPRO = Repro(
    program=PROGRAM,
    words={words_literal},
{literal}
)

if __name__ == "__main__":
    sys.exit(REPRO.main())
'''


def _tell(text: object) -> None:
    sys.stdout.write(f"{text}\n")


def versions() -> str:
    """Returns the versions of the packages that take part."""
    return (
        f"loopwright {version('loopwright')}, LLVM {llvm_version()}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    )


def failure_of(error: BaseException) -> str:
    """Returns the kind of an error and where in this package it arose, which identify a failure."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        if name.startswith("loopwright."):
            where = f"{name.removeprefix('loopwright.')}.{trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return f"{type(error).__name__} in {where}" if where else type(error).__name__


def constants_as_data(module: Module) -> dict[str, tuple[Any, ...]]:
    """Returns the arrays of a module by name: the seed that makes them, or their values.

    Only arrays that ``minimise`` made have a seed, which is their name.
    """
    arrays: dict[str, tuple[Any, ...]] = {}
    for name, array in constants_of(module).items():
        seed = int(name[1:]) if name[1:].isdigit() and name[0] == "c" else 0
        made = random_values(array.shape, array.dtype, seed)
        same = np.array_equal(made, array, equal_nan=array.dtype.kind in "fc")
        arrays[name] = (
            seeded_as_data(array.shape, array.dtype, seed) if same else array_as_data(array)
        )
    return arrays


def array_as_data(array: Array) -> tuple[Any, ...]:
    """Returns dtype, shape and the compressed bytes as text."""
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()
    return array.dtype.name, tuple(array.shape), packed


def seeded_as_data(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> tuple[Any, ...]:
    """Returns dtype, shape and the seed of random values."""
    return dtype.name, tuple(shape), seed


def _array(dtype: str, shape: Sequence[int], source: int | str) -> Array:
    if isinstance(source, int):
        return random_values(tuple(shape), np.dtype(dtype), source)
    data = zlib.decompress(base64.b64decode(source))
    return np.frombuffer(data, np.dtype(dtype)).reshape(tuple(shape)).copy()


def target_as_data(target: Target) -> dict[str, Any]:
    """Returns the machine that code is made for, in plain values."""
    return {**asdict(target), "features": sorted(target.features), "sums": None}


def target_of(data: Mapping[str, Any]) -> Target:
    """Returns the machine that ``target_as_data`` describes."""
    given: dict[str, Any] = {**data, "features": frozenset(data["features"])}
    return Target(**given)


def _runs_here(target: Target) -> bool:
    host = Target.host()
    return target.vector_bytes <= host.vector_bytes and target.features <= host.features


def median_seconds(built: Built, arrays: list[Array]) -> float:
    """Returns about how many seconds a call takes."""
    times: list[float] = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        built.call(arrays)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def _literal(program: str) -> str:
    """Returns the text between triple quotes, where that can be written."""
    plain = '"""' not in program and "\\" not in program and not program.endswith('"')
    return f'"""\n{program.strip()}\n"""' if plain else repr(program)


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def repro_of(
    shows: str,
    failure: tuple[str, str],
    module: Module,
    built_for: tuple[Target, int, Any],
    logged: tuple[Mapping[str, str], Mapping[str, Any]],
    inputs: Sequence[Array] | None = None,
    passes: PassContext | None = None,
) -> Repro:
    """Returns the repro of a module: ``failure`` and its words, what it is built for (target,
    threads, precision), and what logs said (choices, schedules). Without ``inputs`` arguments are
    random, and so are captured arrays, if ``minimise.anonymous`` has made them so."""
    target, threads, precision = built_for
    passes = passes or PassContext()
    given: list[tuple[Any, ...]] = [array_as_data(a) for a in inputs or ()]
    if inputs is None:
        for n, param in enumerate(module.main.params):
            assert isinstance(param.type, TensorType)
            shape = tuple(as_int(s) for s in param.type.shape)
            given.append(seeded_as_data(shape, param.type.dtype.numpy, n))
    return Repro(
        shows,
        *failure,
        as_text(module, spans=False),
        constants_as_data(module),
        given,
        target_as_data(target),
        threads,
        precision,
        dict(logged[0]),
        dict(logged[1]),
        passes.verify,
        versions(),
        tuple(passes.disabled),
        passes.opt_level,
    )


def schedules_of(built: Built) -> dict[str, Any]:
    """Returns the steps of every kernel by the hash of its workload."""
    assert built.source is not None
    return {
        workload_of(prim).hash: built.chosen[name].schedule.to_json()
        for name, prim in built.source.prims.items()
    }
