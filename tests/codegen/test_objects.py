"""Object code that is compiled beside the caller."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from loopwright.codegen import objects
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.objects import begin_object, object_code
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError


def text_of(number: int, length: int = 1) -> str:
    """The text of a function of some size that no other test compiles."""
    lines = [f"  %v{n + 1} = mul i64 %v{n}, {7919 + n}" for n in range(length)]
    head = f"define i64 @f{number}(i64 %v0) {{\n"
    return head + "\n".join(lines) + f"\n  ret i64 %v{length}\n}}\n"


def test_what_is_begun_is_the_code_that_is_made_on_the_spot():
    target = Target.host()
    texts = [text_of(1000 + n, 200) for n in range(8)]
    for text in texts:
        begin_object(text, target)
    assert [object_code(t, target) for t in texts] == [compile_object(t, target) for t in texts]


def test_a_text_that_llvm_refuses_is_an_error_where_its_code_is_asked_for():
    begin_object("define broken", Target.host())
    with pytest.raises(ScheduleError, match="LLVM refuses"):
        object_code("define broken", Target.host())


def test_the_thread_ends_with_its_work_and_leaves_the_interpreter_as_it_was():
    def wait():
        for thread in threading.enumerate():
            if thread.name == "loopwright-llvm":
                thread.join()

    wait()  # for those of other tests
    interval = sys.getswitchinterval()
    assert interval > objects.SWITCH_INTERVAL
    for number in range(50):
        begin_object(text_of(2000 + number), Target.host())
        object_code(text_of(2000 + number), Target.host())
    wait()
    assert sys.getswitchinterval() == interval


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_waits_for_nothing_that_its_parent_had_begun():
    texts = [text_of(3000 + n, 500) for n in range(8)]
    for text in texts:
        begin_object(text, Target.host())
    child = os.fork()
    if child == 0:  # its LLVM may have been forked in the middle of its work: it asks for nothing
        made = objects._background._thread is None and not objects._background._waiting
        os._exit(0 if made else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert all(object_code(t, Target.host()) for t in texts)
