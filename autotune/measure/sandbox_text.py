"""The native half of ``sandbox.py``: a program of a few kilobytes, as assembly.

``lw_start`` is that program. It needs no C library; the library functions that kernels call are
here. It maps the file that is its standard input, runs the operations in it one after the other,
and writes an answer for each. ``lw_spawn`` starts it, in the process that needs the answers.
Numbers and arguments of system calls are those of Linux on x86-64. It is assembly since LLVM takes
ten times as long for the same as IR (docs/measurements.md).
"""

from __future__ import annotations

from ...codegen.target import Target
from .guarded import GARBAGE
from .harness import soil_registers

SHARED = 0x10_0000_0000
"""Address at which the file is mapped. It begins with the number of operations, and the offsets of
them and of their answers."""

_SOILED_BYTES = 64 * 1024

# A system call. Arguments that are left out are 0.
_SYSTEM = """
  .macro system number, first=$0, second=$0, third=$0, fourth=$0, fifth=$0
  movq \\first, %rdi
  movq \\second, %rsi
  movq \\third, %rdx
  movq \\fourth, %r10
  movq \\fifth, %r8
  movl $\\number, %eax
  syscall
  .endm
"""

# lw_spawn(program, file, arguments, end of a stack) makes a child that shares this process's memory
# and blocks signals; it makes only these system calls and sends no signal at its end. An executed
# process always sends one, so the program is a child of that child, which waits for it and exits
# with the number of the signal that ended it.
_SPAWN = """
  .text
  .globl lw_spawn
lw_spawn:
  pushq %rbx
  pushq %r12
  pushq %r13
  movq %rdi, %rbx
  movq %rsi, %r12
  movq %rdx, %r13
  movq %rcx, %r9
  pushq $-1
  pushq $0
  leaq 8(%rsp), %rax
  system 14, $2, %rax, %rsp, $8             # rt_sigprocmask(SIG_SETMASK, all, before)
  system 56, $0x700, %r9                    # clone(CLONE_VM | CLONE_FS | CLONE_FILES, stack)
  testq %rax, %rax
  jz 1f
  movq %rax, %rbx
  system 14, $2, %rsp, $0, $8               # rt_sigprocmask(SIG_SETMASK, before)
  movq %rbx, %rax
  addq $16, %rsp
  popq %r13
  popq %r12
  popq %rbx
  ret
1:
  pushq $0              # no name, no environment; later the status
  system 157, $1, $9                        # prctl(PR_SET_PDEATHSIG, SIGKILL)
  system 56, $0x4100                        # clone(CLONE_VM | CLONE_VFORK)
  testq %rax, %rax
  jz 2f
  system 61, %rax, %rsp, $0x40000000        # wait4(the program, status, __WALL)
  movq (%rsp), %rax
  andl $0x7f, %eax
  system 231, %rax                          # exit_group
2:
  system 157, $1, $9
  system 33, %r12                           # dup2(file, 0)
  system 72, $0, $2                         # fcntl(0, F_SETFD, 0): kept open
  system 322, %rbx, %rsp, %r13, %rsp, $0x1000 # execveat(program, arguments, none, AT_EMPTY_PATH)
  system 231, $127
"""

# Functions that LLVM calls where it has no instruction. The control word sets the x87's rounding.
_LIBRARY = """
  .globl memset
memset:
  movq %rdi, %r8
  movl %esi, %eax
  movq %rdx, %rcx
  rep stosb
  movq %r8, %rax
  ret

  .globl memcpy
memcpy:
  movq %rdi, %rax
  movq %rdx, %rcx
  rep movsb
  ret

  .globl memmove
memmove:
  movq %rdi, %r8
  subq %rsi, %r8
  cmpq %rdx, %r8
  jae memcpy
  movq %rdi, %rax
  movq %rdx, %rcx
  leaq -1(%rdi,%rdx), %rdi
  leaq -1(%rsi,%rdx), %rsi
  std
  rep movsb
  cld
  ret

  .macro rounds name, mode
  .globl \\name
\\name:
  movsd %xmm0, -8(%rsp)
  fldl -8(%rsp)
  movw $\\mode, -16(%rsp)
  fldcw -16(%rsp)
  frndint
  fstpl -8(%rsp)
  movsd -8(%rsp), %xmm0
  ret
  .globl \\name\\()f
\\name\\()f:
  cvtss2sd %xmm0, %xmm0
  subq $8, %rsp
  call \\name
  addq $8, %rsp
  cvtsd2ss %xmm0, %xmm0
  ret
  .endm
  rounds rint, 0x37f
  rounds floor, 0x77f
  rounds ceil, 0xb7f
  rounds trunc, 0xf7f

  .globl lw_pool_threads
lw_pool_threads:
  movl $1, %eax
  ret

# A parallel loop (function, context, count): its iterations one by one from the last to the first,
# or only the chosen ones, if this is the loop they were chosen for.
  .globl lw_parallel_for
lw_parallel_for:
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rdi, %r12
  movq %rsi, %r13
  movq %rdx, %rbx       # iterations left
  xorl %r14d, %r14d     # the list of those that are chosen
  movq lw_chosen+16(%rip), %rax
  decq lw_chosen+16(%rip)
  testq %rax, %rax
  jg 1f
  movq lw_chosen+8(%rip), %rax
  testq %rax, %rax
  jz 1f
  movq %rax, %rbx
  movq lw_chosen(%rip), %r14
1:
  testq %rbx, %rbx
  jle 3f
  decq %rbx
  movq %rbx, %rsi
  testq %r14, %r14
  jz 2f
  movq (%r14,%rbx,8), %rsi
2:
  leaq 1(%rsi), %rdx
  movq %r13, %rdi
  call *%r12
  jmp 1b
3:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  ret
"""

# Operations are eight words each and write one: 1 done, 2 done and false, 3 refused by the system,
# which ends the program. %rbx points to the next operation, %r12 counts the rest, %r13 points to
# the next answer.
_PROGRAM = """
  .globl lw_start
lw_start:
  xorl %ebp, %ebp
  andq $-16, %rsp
  subq $64, %rsp
  movq $0, (%rsp)       # 32 zeros: no signal, no handler, no core file
  movq $0, 8(%rsp)
  movq $0, 16(%rsp)
  movq $0, 24(%rsp)
  system 14, $2, %rsp, $0, $8               # rt_sigprocmask(SIG_SETMASK, none)
  system 13, $14, %rsp, $0, $8              # rt_sigaction(SIGALRM, default)
  system 13, $27, %rsp, $0, $8              # rt_sigaction(SIGPROF, default)
  system 160, $4, %rsp                      # setrlimit(RLIMIT_CORE, 0)
  system 158, $0x1023, $18                  # arch_prctl(ARCH_REQ_XCOMP_PERM, the tiles' data)
  system 8, $0, $0, $2                      # lseek(0, 0, SEEK_END)
  movabsq $SHARED, %rbx
  xorl %r9d, %r9d
  system 9, %rbx, %rax, $3, $0x100001       # mmap(SHARED, size, read and write, shared and there)
  cmpq %rbx, %rax
  jne end
  movq (%rax), %r12
  movq 8(%rax), %rbx
  addq %rax, %rbx
  movq 16(%rax), %r13
  addq %rax, %r13
next:
  testq %r12, %r12
  jz end
  movq 8(%rbx), %rdi
  movq 16(%rbx), %rsi
  movq 24(%rbx), %rdx
  leaq operations(%rip), %rcx
  movq (%rbx), %rax
  movslq (%rcx,%rax,4), %rax
  addq %rcx, %rax
  jmp *%rax

call_system:            # a system call and its arguments
  movq 32(%rbx), %rcx
  movq 40(%rbx), %r11
  movq 48(%rbx), %r8
  movq 56(%rbx), %r9
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r11, %r10
  syscall
  cmpq $-4096, %rax
  jbe yes
  movq $3, (%r13)
  jmp end

fill:                   # address, size, byte
  movq %rsi, %rcx
  movl %edx, %eax
  rep stosb
  jmp yes

invoke:                 # function, argument
  leaq -STACK(%rsp), %rdi
  movl $STACK, %ecx
  movl $GARBAGE, %eax
  rep stosb
  leaq garbage(%rip), %rax
SOIL
  movq 16(%rbx), %rdi
  call *8(%rbx)
  cld
  jmp yes

written4:               # address, size
  movq %rsi, %rcx
  shrq $2, %rcx
  movl garbage(%rip), %eax
  repne scasl
  jne yes
  jmp no

written8:               # address, size
  movq %rsi, %rcx
  shrq $3, %rcx
  movq garbage(%rip), %rax
  repne scasq
  jne yes
  jmp no

yes:
  movq $1, (%r13)
  jmp 1f
no:
  movq $2, (%r13)
1:
  addq $64, %rbx
  addq $8, %r13
  decq %r12
  jmp next
end:
  system 231                                # exit_group(0)

operations:
TABLE

  .section .rodata
  .balign 64
garbage:
  .fill 64, 1, GARBAGE

# Iterations of a parallel loop: their list, their number, and the number of loops before that one.
  .section .data
  .globl lw_chosen
lw_chosen:
  .quad 0, 0, 0
"""

OPERATIONS = ("call_system", "fill", "invoke", "written4", "written8")
"""The names of all operations, by their numbers."""


def sandbox_text(target: Target) -> str:
    """Returns an LLVM module of ``lw_spawn``, ``lw_start``, and the functions kernels may call."""
    table = "\n".join(f"  .long {name} - operations" for name in OPERATIONS)
    program = _PROGRAM.replace("TABLE", table).replace("SHARED", f"{SHARED}")
    program = program.replace("STACK", f"{_SOILED_BYTES}").replace("GARBAGE", f"{GARBAGE}")
    soil = "\n".join(f"  {line}" for line in soil_registers(target, "%rax"))
    lines = "\n".join([_SYSTEM, _SPAWN, _LIBRARY, program.replace("SOIL", soil)]).splitlines()
    bare = (line.partition("#")[0].rstrip().replace("\\", r"\5C") for line in lines)
    return "".join(f'module asm "{line}"\n' for line in bare if line)
