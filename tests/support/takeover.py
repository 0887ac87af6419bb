"""A program that goes on in another process of its container, as an agent could that wants to outlive its own end."""

from __future__ import annotations

SIGN = "/alive"
"""A file that grows by a byte a hundred times a second for as long as the other process is taken over."""

SCRIPT = """
import os, struct, sys

name = sys.argv[1]
(pid,) = [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if p != os.getpid()
          and open(f"/proc/{p}/comm").read().strip() == name]
counter = int(open(f"/proc/{pid}/syscall").read().split()[-1], 16)

def code(path_at):
    def lea(register, at):
        return b"\\x48\\x8d" + register + struct.pack("<i", path_at - at - 7)
    begin = b"\\xb8\\x02\\0\\0\\0"                                # mov eax, 2 (open)
    begin += lea(b"\\x3d", len(begin))                           # lea rdi, [path]
    begin += b"\\xbe\\x41\\x04\\0\\0\\xba\\xa4\\x01\\0\\0\\x0f\\x05"  # mov esi, O_WRONLY|O_CREAT|O_APPEND; mov edx, 0o644
    begin += b"\\x89\\xc7\\xb8\\x01\\0\\0\\0"                      # mov edi, eax; mov eax, 1 (write)
    begin += lea(b"\\x35", len(begin))                           # lea rsi, [path]
    begin += b"\\xba\\x01\\0\\0\\0\\x0f\\x05"                      # mov edx, 1
    begin += b"\\xb8\\x03\\0\\0\\0\\x0f\\x05"                      # mov eax, 3 (close)
    begin += b"\\x68\\x80\\x96\\x98\\0\\x6a\\0\\x48\\x89\\xe7\\x31\\xf6"  # push 10_000_000; push 0; mov rdi, rsp; xor esi, esi
    begin += b"\\xb8\\x23\\0\\0\\0\\x0f\\x05\\x48\\x83\\xc4\\x10"     # mov eax, 35 (nanosleep); add rsp, 16
    return begin + b"\\xeb" + struct.pack("<b", -len(begin) - 2)  # jmp

program = code(len(code(0))) + b"/alive\\0"
# Where it goes on: after its system call, or at it once more if a signal has stopped it.
at = counter - 2 if name == "sleep" else counter
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
    memory.seek(at)
    memory.write(program)
if name == "sleep":
    os.kill(pid, 19)
    os.kill(pid, 18)
"""
"""For Python on x86-64; its argument is the name of the process."""
