"""``loopwright explain``: where the time of a call goes, and what bounds each kernel."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..codegen.machine import measured_machine
from ..codegen.roofline import COMPUTE, Roof
from ..codegen.traffic import LEVELS
from ..inspect.explain import Explained, Explanation, explain
from ..inspect.roofline_svg import roofline_svg
from .log_files import existing_log
from .text import UsageError, bytes_text, rate_text, seconds_text, table
from .userfile import add_function_arguments, load_function

__all__ = ["add", "explanation_text"]

FAR_BELOW = 0.6  # a share of the roof from which on a kernel is worth a remark

_EXAMPLES = """\
examples:
  loopwright explain net.py:predict                       as compiled without a log
  loopwright explain net.py:predict --log net.jsonl --threads 1
  loopwright explain net.py:layer --arg 'x=f32[1000,512]' --loops
  loopwright explain net.py:predict --svg roofline.svg    a picture, for any browser

Each kernel is timed where it stands in a call, at its best of many. Its operations and the bytes it
moves to and from each level of memory are counted on its loop nest (l1: between registers and the
first cache), and the machine's measured peak and bandwidths (`loopwright doctor`) say how long that
takes at least: "allows". The longest bounds it. What a cache still holds from the kernel before
does not count for the levels behind it. Where the model counts too much, it says over 100 %.
"""


def add(commands: Any) -> None:
    """Add the parser of ``explain``."""
    parser = commands.add_parser(
        "explain",
        help="what bounds each kernel of my function, and how near is it?",
        description="Time each kernel of a compiled function and compare it with what this machine "
        "allows.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_function_arguments(parser)
    parser.add_argument("--log", metavar="FILE", help="take schedules from this log, too")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the compiled code")
    parser.add_argument("--seconds", type=float, default=1.0, help="time to spend measuring (1)")
    parser.add_argument("--loops", action="store_true", help="print the kernels' loop nests, too")
    parser.add_argument("--svg", metavar="FILE", help="write the roofline as a picture")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: the time must be more than nothing")
    picture = None if args.svg is None else _writable(Path(args.svg))
    log = None if args.log is None else str(existing_log(args.log))
    user = load_function(args.function, args.arg, log=log, threads=args.threads)
    positional, named = user.arrays()
    lowered = user.compiled.lower(*positional, **named)
    machine = measured_machine(lowered.built.parts.target if lowered.built.parts else None)
    arrays = lowered.operands(*positional, **named)
    found = explain(lowered.built, arrays, machine, args.seconds)
    print(explanation_text(user.name, found, loops=args.loops))
    if picture is not None:
        picture.write_text(roofline_svg(user.name, found))
        print(f"\npicture    {picture}")
    return 0


def _writable(path: Path) -> Path:
    if path.suffix.lower() != ".svg":
        raise UsageError(f"--svg {path}: the picture is an SVG; name it {path.stem or 'roof'}.svg")
    if not path.parent.is_dir():
        raise UsageError(f"--svg {path}: there is no folder {path.parent}")
    return path


def explanation_text(name: str, found: Explanation, *, loops: bool = False) -> str:
    """The whole explanation as text: the machine, a table of kernels, schedules, remarks."""
    parts = [
        "\n".join(_head(name, found)),
        _kernel_table(found),
        "\n".join(_schedules(found)),
    ]
    remarks = "\n".join(_remarks(found))
    if remarks:
        parts.append(remarks)
    if loops:
        parts += [kernel.nest.rstrip() for kernel in found.kernels]
    return "\n\n".join(parts)


def _head(name: str, found: Explanation) -> Iterator[str]:
    machine, roof = found.machine, Roof(found.machine, found.threads)
    count = len(found.kernels)
    yield (
        f"{name}   {seconds_text(found.seconds)} a call, {seconds_text(found.in_kernels)} of it in "
        f"{count} kernel{'' if count == 1 else 's'}"
    )
    threads = f"{found.threads} thread{'' if found.threads == 1 else 's'}"
    how = "measured" if machine.measured else "estimated, not measured"
    yield f"machine    {machine.cpu}, {machine.isa}, {threads}; {how}:"
    rates = [f"float32 {rate_text(roof.peak(), 'FLOP/s')}"]
    rates += [f"{level.upper()} {rate_text(roof.bandwidth(level), 'B/s')}" for level in LEVELS]
    yield "           " + ", ".join(rates)


def _kernel_table(found: Explanation) -> str:
    head = ("kernel", "time", "share", "flops", *(n.upper() for n in LEVELS))
    head += ("bound by", "allows", "reached")
    rows = [
        (
            kernel.name + (f" x{kernel.calls}" if kernel.calls > 1 else ""),
            seconds_text(kernel.seconds),
            f"{kernel.seconds / found.in_kernels:.0%}",
            _count(kernel.work.flops * kernel.calls),
            *(_bytes(kernel.work.traffic[n].total * kernel.calls) for n in LEVELS),
            bound_text(kernel, found),
            seconds_text(kernel.limit),
            f"{kernel.share:.0%}" if kernel.share == kernel.share else "-",
        )
        for kernel in found.kernels
    ]
    return table(head, rows, left=(0, 8))


def bound_text(kernel: Explained, found: Explanation) -> str:
    """What bounds a kernel; and its threads, if they are fewer than there are."""
    what = kernel.bound if kernel.bound == COMPUTE else kernel.bound.upper()
    return what if kernel.roof.threads == found.threads else f"{what} of one thread"


def _count(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def _bytes(size: float) -> str:
    if size == 0:
        return "-"
    text = bytes_text(size)
    number, _, unit = text.partition(" ")
    return f"{float(number):.3g} {unit}"


def _schedules(found: Explanation) -> Iterator[str]:
    yield "schedules"
    for kernel in found.kernels:
        choices = ", ".join(f"{name} {value}" for name, value in kernel.choices.items())
        sketch = kernel.sketch.removesuffix("()")
        yield f"  {kernel.name}"
        yield f"    {kernel.source}"
        yield f"    {sketch}{': ' if choices else ''}{choices}"


def _remarks(found: Explanation) -> Iterator[str]:
    """What the numbers suggest: where most of the time could be won, and how."""
    if found.between > 0.2 * found.seconds:
        yield f"{seconds_text(found.between)} of a call are spent between the kernels"
    for kernel in sorted(found.kernels, key=lambda k: k.limit - k.seconds):
        lost = kernel.seconds - kernel.limit
        if not kernel.share < FAR_BELOW or lost < 0.1 * found.in_kernels:
            continue
        advice = "tuning may find better" if "measured" not in kernel.source else "it was tuned"
        yield (f"{kernel.name} takes {seconds_text(lost)} more than its roof allows; {advice}")
