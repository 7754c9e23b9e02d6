"""Kernels that are wrong in every way are refused before their first use, and remembered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from loopwright.autotune.measure import sandbox, verdicts
from loopwright.autotune.measure.first_use import Subject, refusals
from loopwright.autotune.measure.trial import Trial
from loopwright.autotune.space.space import default_schedule
from loopwright.autotune.workload import workload_of
from loopwright.codegen.kernel import Kernel, compile_kernel, emit_kernel
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.target import Target
from loopwright.ir.dtype import dtype_of
from loopwright.ir.errors import InternalError, RefusedFileWarning
from loopwright.ir.loop.expr import const, op
from loopwright.ir.loop.nest import If, Loop, Stmt, Store, statements
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import Schedule, pack_grouped, shift_bytes
from other_peoples_files import attacked
from planted_kernels import ERRORS, compile_planted, make_prim

from tools.evaluate_model import matmul_prim

HOST = Target.host()
BAD = [kind for kind, word in ERRORS.items() if word in ("wrong_result", "out_of_bounds")]
BAD = [kind for kind in BAD if kind not in ("read_before_unused", "least_of_old")]  # of tuning
BAD += ["abort", "illegal_instruction", "endless"]


KEY = "0" * 64


def planted(kind: str) -> Subject:
    prim = make_prim()
    real = compile_kernel(prim, Schedule(), HOST, f"lw_{kind}")
    text = compile_planted(prim, [["plant", kind, 1]], HOST, f"lw_{kind}").text
    return subject_of(prim, replace(real, code=ModuleText.of(text), workspace_bytes=64), Schedule())


def subject_of(prim: PrimFunc, kernel: Kernel, schedule: Schedule) -> Subject:
    return Subject(prim, kernel, HOST, workload_of(prim).hash, schedule)


def compiled(prim: PrimFunc, schedule: Schedule | None = None) -> Subject:
    schedule = default_schedule(prim, HOST)[0] if schedule is None else schedule
    return subject_of(prim, compile_kernel(prim, schedule, HOST), schedule)


def test_every_planted_mistake_is_refused_and_the_good_one_is_not(tmp_path: Path) -> None:
    found = refusals({kind: planted(kind) for kind in ["good", *BAD]}, tmp_path)
    assert [*found] == BAD and all(found.values())
    assert "too long" in found["endless"] and "wrong" in found["wrong"]
    assert "outside" in found["read_after"] and "calls abort" in found["abort"]


def test_a_verdict_is_remembered_by_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects = {kind: planted(kind) for kind in ("good", "wrong")}
    first = refusals(subjects, tmp_path)
    verdicts.verdicts.cache_clear()  # as a new process has it
    monkeypatch.setattr(sandbox, "Job", None)
    assert refusals(subjects, tmp_path) == first
    assert [*first] == ["wrong"]


def test_other_machine_code_is_another_kernel(tmp_path: Path) -> None:
    keys = {planted(kind).key for kind in ("good", "wrong", "imprecise")}
    assert len(keys) == 3
    good = planted("good")
    (stage,) = good.prim.stages
    negated = replace(stage, expr=op("negative", stage.expr))
    other = replace(good.prim, stages=(negated,))
    assert subject_of(other, good.kernel, Schedule()).key != good.key


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 99, b"right abc\nwrong\n", b"right " * 999])
def test_damaged_files_say_nothing(tmp_path: Path, content: bytes) -> None:
    subjects = {kind: planted(kind) for kind in ("good", "wrong")}
    assert [*refusals(subjects, tmp_path)] == ["wrong"]
    for path in (tmp_path / "verdicts").iterdir():
        path.write_bytes(content)
    verdicts.verdicts.cache_clear()
    assert [*refusals(subjects, tmp_path)] == ["wrong"]


def test_a_folder_that_cannot_be_written_costs_memory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    subjects = {kind: planted(kind) for kind in ("good", "wrong")}
    assert [*refusals(subjects, tmp_path / "file")] == ["wrong"]
    monkeypatch.setattr(sandbox, "Job", None)
    assert [*refusals(subjects, tmp_path / "file")] == ["wrong"]


ATTACKS = ["fifo", "link", "writable", "foreign", "folder", "open folder", "foreign folder"]


@pytest.mark.parametrize("attack", [*ATTACKS, "linked folder", "long"])
@pytest.mark.parametrize("word", ["right", "wrong"])
def test_verdicts_of_others_are_not_believed(tmp_path: Path, attack: str, word: str) -> None:
    path = tmp_path / "verdicts" / KEY
    reason = "" if word == "right" else "because"
    verdicts.Verdicts(tmp_path).put(KEY, "workload", "schedule", reason)
    assert verdicts.Verdicts(tmp_path).get(KEY) == reason
    content = path.read_bytes()
    attacked(path, attack, tmp_path / "elsewhere")
    store = verdicts.Verdicts(tmp_path)
    with pytest.warns(RefusedFileWarning, match="done without"):
        assert store.get(KEY) is None
    assert store.refused() == {}
    store.put("1" * 64, "workload", "other", "it is mine")
    assert store.get("1" * 64) == "it is mine"  # for this process
    if attack in ("link", "linked folder"):
        assert path.read_bytes() == content


def test_what_cannot_be_tried_is_not_used_and_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_process(*_: object) -> None:
        raise OSError("the system starts no process")

    subjects = {"good": planted("good")}
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "Job", no_process)
        assert "starts no process" in refusals(subjects, tmp_path)["good"]
    assert refusals(subjects, tmp_path) == {}


def test_a_reference_that_fails_costs_the_schedule_and_not_the_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(trial: Trial) -> None:
        raise InternalError("no reference")

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "evaluate", failing)
        assert "no reference" in refusals({"good": planted("good")}, tmp_path)["good"]
    assert refusals({"good": planted("good")}, tmp_path) == {}


def _changed(body: Sequence[Stmt], victim: Stmt) -> Iterator[Stmt]:
    """The statements with one store of another value."""
    for stmt in body:
        if stmt is victim:
            assert isinstance(stmt, Store)
            value = op("add", stmt.value, const(1, stmt.value.dtype))
            yield replace(stmt, value=value)
        elif isinstance(stmt, Loop):
            yield replace(stmt, body=tuple(_changed(stmt.body, victim)))
        elif isinstance(stmt, If):
            then, orelse = _changed(stmt.then, victim), _changed(stmt.orelse, victim)
            yield replace(stmt, then=tuple(then), orelse=tuple(orelse))
        else:
            yield stmt


LARGE = {
    "products": matmul_prim(509, 131, 517),
    "rows": parse_prim(
        "prim @rows(x: float32[701, 1003]) -> out: float32[701, 1003] {\n"
        "  m[i]: float32[701] = max(k: 1003) x[i, k]\n"
        "  e[i, j]: float32[701, 1003] = exp(x[i, j] - m[i])\n"
        "  s[i]: float32[701] = sum(r: 1003) e[i, r]\n"
        "  out[i, j] = e[i, j] / s[i]\n}"
    ),
    "moves": parse_prim(
        "prim @moves(x: int32[640, 512]) -> out: int32[512, 640] { out[i, j] = x[j, i] * x[j, i] }"
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_mistake_in_any_store_of_a_large_kernel_is_seen(name: str, tmp_path: Path) -> None:
    prim = LARGE[name]
    right = compiled(prim)
    assert refusals({"right": right}, tmp_path) == {}
    stores = [
        s
        for s in statements(right.kernel.nest.body)
        if isinstance(s, Store) and s.buffer in prim.outputs
    ]
    wrong: dict[str, Subject] = {}
    for number, victim in enumerate(stores):
        nest = replace(right.kernel.nest, body=tuple(_changed(right.kernel.nest.body, victim)))
        wrong[f"{number}"] = replace(right, kernel=emit_kernel(nest, HOST, "lw_changed"))
    assert wrong and [*refusals(wrong, tmp_path)] == [*wrong]


def test_iterations_that_leave_their_elements_to_others_are_no_mistake(tmp_path: Path) -> None:
    prim = parse_prim(
        "prim @gram(x: float32[256, 64]) -> out: float32[256, 256] {\n"
        "  t[i, j]: float32[256, 256] = sum(k: 64) x[i, k] * x[j, k]\n"
        "  out[i, j] = tanh(t[i, j])\n}"
    )
    tile = ["j.0", "i.0", "k", "i.1", "j.1"]
    schedule = Schedule.from_json(
        [["split", "j", [16, 16]], ["split", "i", [16, 16]], ["reorder", tile]]
        + [["cache_write", "t", "registers", "i.0"], ["compute_at", "out", "i.0"]]
        + [["unroll", "i.1"], ["vectorize", "j.1"], ["fuse", ["j.0", "i.0"]]]
        + [["parallel", "j.0*i.0"], ["mirror", "t", "j.0*i.0"]]
    )
    right = compiled(prim, schedule)
    assert "if index(16 * i.0 - 16 * j.0) <= 0" in str(right.kernel.nest)
    assert refusals({"right": right}, tmp_path) == {}


def test_an_index_into_a_table_and_packed_weights_are_tried(tmp_path: Path) -> None:
    table = parse_prim(
        "prim @table(t: float32[900, 300], n: int64[700]) -> out: float32[700, 300] {\n"
        "  out[i, j] = t[n[i], j]\n}"
    )
    product = replace(LARGE["products"], name="constant")
    weights = replace(product.params[1], constant=True)
    product = replace(product, params=(product.params[0], weights))
    assert refusals({"table": compiled(table), "product": compiled(product)}, tmp_path) == {}


def test_weights_that_are_stored_shifted_are_tried_in_every_size(tmp_path: Path) -> None:
    subjects = {
        str(n): compiled(
            parse_prim(
                f"prim @bytes{n}(x: int8[70, 132], w: int8[132, {n}] const) -> t: int32[70, {n}] {{"
                "t[i, j] = sum(k: 132) int32(x[i, k]) * int32(w[k, j]) }"
            ),
            Schedule.of(pack_grouped("w", "j", 16, "k", 4), shift_bytes("t", "w.packed")),
        )
        for n in (50, 5000)
    }
    assert refusals(subjects, tmp_path) == {}


TURNS = """
declare void @lw_parallel_for(ptr, ptr, i64)
define internal void @part(ptr %context, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %context
  %yp = getelementptr ptr, ptr %context, i64 1
  %y = load ptr, ptr %yp
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %xi = getelementptr float, ptr %x, i64 %i
  %yi = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %xi
  %t = fmul float %a, 2.0
  %v = fadd float %t, 1.0
  %first = icmp eq i64 %i, 0
  %last = sub i64 %i, 1
  %p = getelementptr float, ptr %y, i64 %last
  %before = load float, ptr %p
  %small = fcmp olt float %before, 1.0e10
  %fine = or i1 %first, %small
  %w = select i1 %fine, float %v, float 9.0
  store float %w, ptr %yi
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
define void @NAME.packed(ptr %args) {
  call void @lw_parallel_for(ptr @part, ptr %args, i64 1000)
  ret void
}
"""


def test_turns_that_wait_for_earlier_ones_are_refused(tmp_path: Path) -> None:
    """Where the turns run one after the other the kernel is right."""
    good = planted("good")
    text = TURNS.replace("NAME", good.kernel.name)
    waiting = replace(good, kernel=replace(good.kernel, code=ModuleText.of(text)))
    assert [*refusals({"waiting": waiting}, tmp_path)] == ["waiting"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_tried_as_other_floats_are(dtype: str, tmp_path: Path) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype_of(dtype)  # bfloat16 is known from its first use on
    subjects = {
        combiner: compiled(
            parse_prim(
                f"prim @f(x: {dtype}[8, 40]) -> y: {dtype}[8] {{\n"
                f"  t[i]: float32[8] = {combiner}(k: 40) float32(x[i, k])\n"
                f"  y[i] = {dtype}(t[i])\n}}"
            )
        )
        for combiner in ("sum", "max")
    }
    assert not refusals(subjects, tmp_path)
