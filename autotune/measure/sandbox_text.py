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
from .soiling import soil_registers

SHARED = 0x10_0000_0000
"""Address at which the file is mapped. It begins with the number of operations, and the offsets of
them and of their answers."""

_SOILED_BYTES = 64 * 1024

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
  movl $14, %eax        # rt_sigprocmask(SIG_SETMASK, all, before, 8)
  movl $2, %edi
  leaq 8(%rsp), %rsi
  movq %rsp, %rdx
  movl $8, %r10d
  syscall
  movl $56, %eax        # clone(CLONE_VM | CLONE_FS | CLONE_FILES, stack)
  movl $0x700, %edi
  movq %r9, %rsi
  xorl %edx, %edx
  xorl %r10d, %r10d
  xorl %r8d, %r8d
  syscall
  testq %rax, %rax
  jz 1f
  movq %rax, %rbx
  movl $14, %eax
  movl $2, %edi
  movq %rsp, %rsi
  xorl %edx, %edx
  movl $8, %r10d
  syscall
  movq %rbx, %rax
  addq $16, %rsp
  popq %r13
  popq %r12
  popq %rbx
  ret
1:
  pushq $0              # no name, no environment; later the status
  movl $157, %eax       # prctl(PR_SET_PDEATHSIG, SIGKILL)
  movl $1, %edi
  movl $9, %esi
  syscall
  movl $56, %eax        # clone(CLONE_VM | CLONE_VFORK)
  movl $0x4100, %edi
  xorl %esi, %esi
  xorl %edx, %edx
  xorl %r10d, %r10d
  xorl %r8d, %r8d
  syscall
  testq %rax, %rax
  jz 2f
  movq %rax, %rdi       # wait4(the program, status, __WALL)
  movl $61, %eax
  movq %rsp, %rsi
  movl $0x40000000, %edx
  xorl %r10d, %r10d
  syscall
  movl $231, %eax       # exit_group
  movq (%rsp), %rdi
  andl $0x7f, %edi
  syscall
2:
  movl $157, %eax
  movl $1, %edi
  movl $9, %esi
  syscall
  movl $33, %eax        # dup2(file, 0)
  movq %r12, %rdi
  xorl %esi, %esi
  syscall
  movl $72, %eax        # fcntl(0, F_SETFD, 0): kept open
  xorl %edi, %edi
  movl $2, %esi
  xorl %edx, %edx
  syscall
  movl $322, %eax       # execveat(program, arguments, none, AT_EMPTY_PATH)
  movq %rbx, %rdi
  movq %rsp, %rsi
  movq %r13, %rdx
  movq %rsp, %r10
  movl $0x1000, %r8d
  syscall
  movl $231, %eax
  movl $127, %edi
  syscall
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
  movq loops_before(%rip), %rax
  decq loops_before(%rip)
  testq %rax, %rax
  jg 1f
  movq chosen_count(%rip), %rax
  testq %rax, %rax
  jz 1f
  movq %rax, %rbx
  movq chosen(%rip), %r14
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
  movl $14, %eax        # rt_sigprocmask(SIG_SETMASK, none)
  movl $2, %edi
  movq %rsp, %rsi
  xorl %edx, %edx
  movl $8, %r10d
  syscall
  movl $13, %eax        # rt_sigaction(SIGALRM, default)
  movl $14, %edi
  syscall
  movl $13, %eax        # rt_sigaction(SIGPROF, default)
  movl $27, %edi
  syscall
  movl $160, %eax       # setrlimit(RLIMIT_CORE, 0)
  movl $4, %edi
  syscall
  movl $158, %eax       # arch_prctl(ARCH_REQ_XCOMP_PERM, the tiles' data)
  movl $0x1023, %edi
  movl $18, %esi
  syscall
  movl $8, %eax         # lseek(0, 0, SEEK_END)
  xorl %edi, %edi
  xorl %esi, %esi
  movl $2, %edx
  syscall
  movq %rax, %rsi       # mmap(SHARED, size, read and write, shared and there, 0, 0)
  movabsq $SHARED, %rdi
  movl $9, %eax
  movl $3, %edx
  movl $0x100001, %r10d
  xorl %r8d, %r8d
  xorl %r9d, %r9d
  syscall
  cmpq %rdi, %rax
  jne end
  movq (%rdi), %r12
  movq 8(%rdi), %rbx
  addq %rdi, %rbx
  movq 16(%rdi), %r13
  addq %rdi, %r13
next:
  testq %r12, %r12
  jz end
  movq 8(%rbx), %rdi
  movq 16(%rbx), %rsi
  movq 24(%rbx), %rdx
  movq 32(%rbx), %r14
  movq 40(%rbx), %r15
  leaq operations(%rip), %rcx
  movq (%rbx), %rax
  movslq (%rcx,%rax,4), %rax
  addq %rcx, %rax
  jmp *%rax

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

same:                   # address, size, byte
  movq %rsi, %rcx
  movl %edx, %eax
  repe scasb
  je yes
  jmp no

copy:                   # to, from, size
  movq %rdx, %rcx
  rep movsb
  jmp yes

gather:                 # to, from, places, count, size of an element
  xorl %r8d, %r8d
  movq %rsi, %r9
1:
  cmpq %r14, %r8
  jge yes
  movq (%rdx,%r8,8), %rsi
  imulq %r15, %rsi
  addq %r9, %rsi
  movq %r15, %rcx
  rep movsb
  incq %r8
  jmp 1b

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

choose:                 # iterations, count, loops before
  movq %rdi, chosen(%rip)
  movq %rsi, chosen_count(%rip)
  movq %rdx, loops_before(%rip)
  jmp yes

clear:                  # address, count, stride, width
  movq %rdi, %r8
  xorl %eax, %eax
1:
  testq %rsi, %rsi
  jle yes
  movq %r8, %rdi
  movq %r14, %rcx
  rep stosb
  addq %rdx, %r8
  decq %rsi
  jmp 1b

limit:                  # two itimervals
  movq %rsi, %r14
  movq %rdi, %rsi       # setitimer(ITIMER_PROF, the first)
  movl $38, %eax
  movl $2, %edi
  xorl %edx, %edx
  syscall
  movl $38, %eax        # setitimer(ITIMER_REAL, the second)
  xorl %edi, %edi
  movq %r14, %rsi
  syscall
  jmp yes

system:                 # a system call and its arguments
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %r14, %rdx
  movq %r15, %r10
  movq 48(%rbx), %r8
  movq 56(%rbx), %r9
  syscall
  cmpq $-4096, %rax
  jbe yes
  movq $3, (%r13)
  jmp end

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
  movl $231, %eax       # exit_group(0)
  xorl %edi, %edi
  syscall

operations:
TABLE

  .section .rodata
  .balign 64
garbage:
  .fill 64, 1, GARBAGE

  .section .data
chosen:
  .quad 0
chosen_count:
  .quad 0
loops_before:
  .quad 0
"""

OPERATIONS = (
    "fill", "invoke", "same", "copy", "gather", "written4", "written8", "choose", "clear", "limit",
    "system",
)  # fmt: skip
"""The names of all operations, by their numbers."""


def sandbox_text(target: Target) -> str:
    """Returns an LLVM module of ``lw_spawn``, ``lw_start``, and the functions kernels may call."""
    table = "\n".join(f"  .long {name} - operations" for name in OPERATIONS)
    program = _PROGRAM.replace("TABLE", table).replace("SHARED", f"{SHARED}")
    program = program.replace("STACK", f"{_SOILED_BYTES}").replace("GARBAGE", f"{GARBAGE}")
    soil = "\n".join(f"  {line}" for line in soil_registers(target, "%rax"))
    lines = "\n".join([_SPAWN, _LIBRARY, program.replace("SOIL", soil)]).splitlines()
    bare = (line.partition("#")[0].rstrip().replace("\\", r"\5C") for line in lines)
    return "".join(f'module asm "{line}"\n' for line in bare if line)
