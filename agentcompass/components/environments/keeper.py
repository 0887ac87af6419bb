"""The keeper: a program of its own that starts the commands of `host_process` and ends everything they started.

```
engine                            talks, and is watched: its end is the end of all below
keeper, one for each environment  forks guards, and kills what a dead guard leaves
├── guard, one for each command   adopts its orphans, so that its descendants are exactly the command's processes
│   └── the command and whatever it starts, daemons in sessions of their own included
```

Keeper and guards are child subreapers (prctl(2)): a process whose parent ends becomes their child instead of
init's. So nothing is found by name, group or terminal, all of which a program can change; it is found by descent,
which it cannot. The keeper is a grandchild that the engine's process does not have to wait for.

Run as `python -I -S keeper.py CONTROL_FD ENGINE_PID MAX_FILES`: one file, since the package is out of reach then; only the
standard library, and as little of it as possible, because each guard is a fork of this. Commands may have MAX_FILES
open, unless they ask for more. The other end is `trees.py`, which defines nothing of the protocol but uses it:

- CONTROL_FD takes `+` with one socket: the line to a new guard.
- On that line the guard gets 8 bytes of length (little endian) and a marshalled request: `argv`, `env`, `cwd` (bytes),
  `limits` (pairs of rlimit and value), `tty` (the path of a terminal, or None), `workspace`; with the descriptors for 0, 1, 2.
- The guard says `exit CODE` when the command has ended, and `over` when nothing of its tree is left; then it ends.
- `k` asks it to kill the tree; it says `killed COUNT SURVIVORS` and ends. `d` gives it pipes to drain.
- A hang-up before `over` or `killed` means that the guard itself was killed.

Run as `python -I -S keeper.py inside`, it is the first process of a PID namespace, which makes it immune to every
signal from inside, and the end of it the end of all (`enclosure.py`). Its control socket is then descriptor 0;
it says `r` on it when it serves, `t` asks for a terminal (answered by its path, with its two ends), `l` for a socket
that listens on the loopback device (answered by its port), and it answers for guards that were killed: it ends what they
leave, and says `killed` in their place. Neither it nor its guards can be traced by commands.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if (
    TYPE_CHECKING
):  # typing would take a fifth of the keeper's start, and its memory is forked for each command
    from collections.abc import Callable
    from typing import Any, NoReturn

INSIDE = "inside"
KEYCTL_JOIN_SESSION_KEYRING = 1
"""Leaves behind the keys (keyrings(7)) that this user's session has; without effect on a kernel without keys."""
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 5.0
"""How long a guard tries to end its tree; only a process in an uninterruptible sleep takes longer than milliseconds."""
REQUEST_SECONDS = 60.0
GUARD_ROOM_BYTES = 16 << 20
"""What a guard may still come to need."""
N_THREADS = 17
"""Which of `stat_fields` counts a process's threads, dead first one included."""
FREEZE_PASSES = 50
HAS_CHILDREN_FILES = os.access(f"/proc/{os.getpid()}/task/{os.getpid()}/children", os.F_OK)
"""Whether this kernel lists children (CONFIG_PROC_CHILDREN); otherwise all of /proc is read for it."""
IGNORED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""By keeper and guards, so that a careless `pkill python` in a sandbox does not end them."""
BACKLOG = 128
MAX_FDS = 3
"""That come with one message."""
RESET = (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ)


def main() -> None:
    """Detach from the engine, then serve it until it ends."""
    libc = ctypes.CDLL(None)
    is_first = sys.argv[1] == INSIDE
    if is_first:
        if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 or os.getpid() != 1:
            sys.exit("this is no PID namespace of its own")
        libc.syscall(SYS_KEYCTL.get(os.uname().machine, -1), KEYCTL_JOIN_SESSION_KEYRING, None)
        control, engine = socket.socket(fileno=os.dup(0)), -1
    else:
        control, engine = socket.socket(fileno=int(sys.argv[1])), watch_engine(int(sys.argv[2]))
        adopt_orphans(libc.prctl)  # while somebody hears of it if this kernel cannot
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if most != resource.RLIM_INFINITY and int(sys.argv[3]) < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]), most))
        if os.fork():
            os._exit(0)
        os.setsid()
    os.chdir("/")
    os.umask(0o022)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    libc.prctl(PR_SET_NAME, b"ac-keeper", 0, 0, 0)
    adopt_orphans(libc.prctl)
    gc.disable()  # so that guards share the keeper's memory
    if is_first:
        control.send(b"r")
    Keeper(control, engine, libc.prctl, answers_for_guards=is_first).serve()


def watch_engine(pid: int) -> int:
    """Return a descriptor that becomes readable when the engine ends; -1 on kernels without pidfds.

    A hang-up alone would not do: a process that the host application forked may hold the engine's sockets too.
    """
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        fd = -1
    if os.getppid() != pid:
        sys.exit("the engine has ended")
    return fd


def adopt_orphans(prctl: Callable[..., int]) -> None:
    """Become the parent of every descendant whose own parent ends; not inherited by forks."""
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this kernel has no child subreapers")


def wake_on_child() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    receiver, sender = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return receiver


def reap(stopped: int = 0) -> tuple[dict[int, int], bool]:
    """Collect ended children without waiting: their wait statuses by pid, and whether others still live.

    With WUNTRACED for `stopped`, children that were stopped are among the statuses.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | stopped)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


class Keeper:
    """Forks guards on request; kills the orphans of a guard that was killed."""

    def __init__(
        self,
        control: socket.socket,
        engine: int,
        prctl: Callable[..., int],
        *,
        answers_for_guards: bool,
    ) -> None:
        self.control, self.engine, self.prctl = control, engine, prctl
        self.answers_for_guards = answers_for_guards
        self.guards: dict[int, int] = {}
        """By pid: the guard's line if this keeper answers for it, else -1."""
        self.lost_one = False
        self.unanswered: list[int] = []
        """Lines of guards that were killed and whose orphans are not all dead."""
        self.killed: set[int] = set()

    def serve(self) -> None:
        """Return when the engine has gone and no guard is left."""
        wake = wake_on_child()
        poll = poller(self.control.fileno(), self.engine, wake)
        serving = True
        while serving or self.guards:
            for fd, _event in poll.poll():
                if fd == wake:
                    drain(wake)
                elif not self.take():
                    # The guards see it too and end their trees.
                    serving = False
                    for gone in {self.control.fileno(), self.engine} - {-1}:
                        poll.unregister(gone)
                    break
            self.look_after_guards()

    def take(self) -> bool:
        """Fork the guard that the engine asks for; False if the engine has gone."""
        self.control.setblocking(False)
        try:
            data, fds = receive(self.control, 1)
        except BlockingIOError:
            return False  # it was the engine's own descriptor that woke us
        except OSError:
            return False
        if not data:
            return False
        if data in (b"t", b"l"):
            self.lend(data)
        for fd in fds:
            try:
                pid = os.fork()
            except OSError:
                pid = -1  # no more processes: the hang-up below tells the engine
            if pid == 0:
                self.become_guard(fd)
            elif pid > 0:
                self.guards[pid] = fd if self.answers_for_guards else -1
            if self.guards.get(pid) != fd:
                os.close(fd)
        return True

    def lend(self, what: bytes) -> None:
        """Make a terminal and send its path, with our end and the command's; or a socket that listens, with its port.

        Nothing but `-` if there is none left.
        """
        try:
            if what == b"t":
                fds = list(os.openpty())
                name = os.fsencode(os.ttyname(fds[1]))
            else:
                listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
                name = b"%d" % listening.getsockname()[1]
                fds = [listening.detach()]
        except OSError:
            self.control.send(b"-")
            return
        socket.send_fds(self.control, [name], fds)
        for fd in fds:
            os.close(fd)

    def become_guard(self, fd: int) -> NoReturn:
        """Be a guard, in the forked process, and end."""
        code = 70
        try:
            self.control.close()
            for line in (*self.guards.values(), *self.unanswered):
                if line >= 0:
                    os.close(line)
            adopt_orphans(self.prctl)
            Guard(socket.socket(fileno=fd), self.engine).run()
            code = 0
        finally:
            # Whatever happened, a guard never goes on as a second keeper; the first one cleans up after a non-zero code.
            os._exit(code)

    def look_after_guards(self) -> None:
        """Reap, and wake stopped guards; once a guard has not ended well, kill whatever child is none."""
        ended, _more = reap(os.WUNTRACED)
        for pid, status in ended.items():
            if pid in self.guards and os.WIFSTOPPED(status):
                send_signal(pid, signal.SIGCONT)
            elif pid in self.guards:
                self.dismiss(self.guards.pop(pid), status)
        if self.lost_one:
            orphans = [pid for pid in children(os.getpid()) if pid not in self.guards]
            for pid in orphans:
                send_signal(pid, signal.SIGKILL)
            self.killed.update(orphans)
            if not orphans:
                self.answer()

    def dismiss(self, line: int, status: int) -> None:
        """Let go of a guard that has ended, and take its place if it did not end well."""
        self.lost_one = self.lost_one or status != 0
        if line >= 0 and status != 0:
            self.unanswered.append(line)
        elif line >= 0:
            os.close(line)

    def answer(self) -> None:
        """Say in the place of killed guards that nothing of theirs is left."""
        for line in self.unanswered:
            with contextlib.suppress(OSError):  # nobody may be left to tell
                os.write(line, f"killed {len(self.killed)} 0\n".encode())
            os.close(line)
        self.unanswered, self.killed = [], set()


class Guard:
    """Runs one command and answers for its whole tree."""

    def __init__(self, line: socket.socket, engine: int) -> None:
        self.line, self.engine = line, engine
        self.main = -1
        self.pipes: set[int] = set()

    def run(self) -> None:
        """Return when no process of the tree is left."""
        os.setsid()
        wake = wake_on_child()
        self.line.settimeout(REQUEST_SECONDS)
        request, fds = self.receive_request()
        if request is None:
            return
        self.line.settimeout(None)
        if request["workspace"] is not None:
            hold(request["workspace"])
        try:
            self.main = start(request, fds)
        except OSError as error:
            name = request["argv"][0] if error.filename is None else os.fsencode(error.filename)
            message = name + b": " + os.strerror(error.errno or 0).encode() + b"\n"
            with contextlib.suppress(OSError):
                os.write(fds[2], message)
            not_found = error.errno == errno.ENOENT and name != request["cwd"]
            self.say(f"exit {127 if not_found else 126}\nover\n")
            return
        for fd in fds:
            os.close(fd)
        self.watch(wake)

    def receive_request(self) -> tuple[dict[str, Any] | None, list[int]]:
        """Return the request, None if the engine hung up instead, and the descriptors."""
        data, fds = receive(self.line, 65536)
        while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "little"):
            more = self.line.recv(1 << 20)
            if not more:
                return None, fds
            data += more
        return marshal.loads(data[8:]), fds

    def watch(self, wake: int) -> None:
        """Report the command's end, and return when its tree has ended, by itself or by our hand."""
        poll = poller(self.line.fileno(), self.engine, wake)
        while True:
            for fd, _event in poll.poll():
                if fd == wake:
                    drain(wake)
                elif fd in self.pipes:
                    if not drain(fd):
                        poll.unregister(fd)
                        self.pipes.discard(fd)
                        os.close(fd)
                elif fd == self.engine or not self.obey(poll):
                    count, survivors = end_tree(wake)
                    self.say(f"killed {count} {survivors}\n")
                    if survivors:
                        sys.exit("left to the keeper")
                    return
            ended, more = reap()
            news = f"exit {exit_code(ended[self.main])}\n" if self.main in ended else ""
            self.say(news if more else news + "over\n")
            if not more:
                return

    def obey(self, poll: select.poll) -> bool:
        """Do what the engine says; False if it wants the tree killed, or has gone."""
        try:
            data, fds = receive(self.line, 1)
        except OSError:
            return False
        for fd in fds:
            self.pipes.add(fd)
            poll.register(fd, select.POLLIN)
        return data == b"d"

    def say(self, text: str) -> None:
        """Tell the engine."""
        if not text:
            return
        with contextlib.suppress(OSError):  # the engine may have gone: nobody is left to tell
            self.line.sendall(text.encode(), socket.MSG_NOSIGNAL)


def start(request: dict[str, Any], fds: list[int]) -> int:
    """Start the command in a session of its own and return its pid.

    posix_spawn halves the price of a fork. What it cannot do for the child, the guard does to itself before: the
    directory, and the limits, of which only one that leaves it too little memory is taken back; the child's hard one follows.
    """
    os.chdir(request["cwd"])
    env = request["env"]
    # posix_spawnp looks the program up in the guard's own PATH.
    os.putenv(b"PATH", env.get(b"PATH", os.defpath.encode()))
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]
    if request["tty"] is not None:
        # A session leader's first terminal that is opened becomes its controlling terminal.
        actions[0] = (os.POSIX_SPAWN_OPEN, 0, request["tty"], os.O_RDWR, 0)
    before = {number: resource.getrlimit(number) for number, _value in request["limits"]}
    limits = {
        number: value
        if before[number][1] == resource.RLIM_INFINITY
        else min(value, before[number][1])
        for number, value in request["limits"]
    }
    memory = limits.get(resource.RLIMIT_AS)
    too_small = memory is not None and memory < own_size() + GUARD_ROOM_BYTES
    for number, value in limits.items():
        is_lasting = number != resource.RLIMIT_AS or not too_small
        resource.setrlimit(number, (value, value if is_lasting else before[number][1]))
    try:
        pid = os.posix_spawnp(
            request["argv"][0],
            request["argv"],
            env,
            file_actions=actions,
            setsid=True,
            setsigdef=RESET,
            setsigmask=(),
        )
    finally:
        if too_small:
            resource.setrlimit(resource.RLIMIT_AS, before[resource.RLIMIT_AS])
    if too_small and memory is not None:
        with contextlib.suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_AS, (memory, memory))
    return pid


def own_size() -> int:
    """The bytes of this process's address space."""
    return int(read_file("/proc/self/statm").split()[0]) * resource.getpagesize()


def receive(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive bytes and descriptors; socket.recv_fds would leave the descriptors inheritable by commands."""
    data, ancillary, _flags, _address = sock.recvmsg(
        size, socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
    )
    fds: list[int] = []
    for _level, _type, packed in ancillary:
        fds += (int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4))
    return data, fds


def end_tree(wake: int) -> tuple[int, int]:
    """Kill every descendant; return how many there were and how many could not be killed.

    Freezing all of them before killing any leaves a fork bomb no process that could fork faster than we read.
    """
    deadline = time.monotonic() + KILL_SECONDS
    found: set[int] = set()
    while True:
        _ended, more = reap()
        if not more:
            return len(found), 0
        if time.monotonic() > deadline:
            return len(found), len(descendants(os.getpid()))
        frozen: set[int] = set()
        for _ in range(FREEZE_PASSES):
            fresh = descendants(os.getpid()) - frozen
            if not fresh:
                break
            for pid in fresh:
                send_signal(pid, signal.SIGSTOP)
            frozen |= fresh
        for pid in frozen:
            send_signal(pid, signal.SIGKILL)
        found |= frozen
        select.select([wake], [], [], 0.02)
        drain(wake)


def descendants(root: int) -> set[int]:
    """Every living process below `root`, itself not counted."""
    found: set[int] = set()
    parents = [root]
    while parents:
        for pid in children(parents.pop()):
            if pid not in found:
                found.add(pid)
                parents.append(pid)
    return {pid for pid in found if is_living(pid)}


def is_living(pid: int) -> bool:
    """Whether a process has a thread that is not dead: its first one may have ended before the others."""
    fields = stat_fields(pid)
    return bool(fields) and (fields[0] not in (b"Z", b"X") or int(fields[N_THREADS]) > 1)


def children(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    if not HAS_CHILDREN_FILES:
        return [other for other in all_pids() if parent_of(other) == pid]
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - no pathlib here
            found += map(int, read_file(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:
        pass  # it, or one of its threads, has just ended
    return found


def all_pids() -> list[int]:
    """Every process there is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - no pathlib here


def parent_of(pid: int) -> int:
    """The parent's pid; 0 if the process has ended."""
    fields = stat_fields(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def stat_fields(pid: int) -> list[bytes]:
    """The fields of `/proc/PID/stat` from the third, the state, on; empty if the process has ended."""
    try:
        return read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return []


def read_file(path: str) -> bytes:
    """All of a file of /proc."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may have ended, or may not be ours to signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def drain(fd: int) -> bool:
    """Discard what a non-blocking descriptor has to read; False at its end."""
    try:
        return bool(os.read(fd, 65536))
    except BlockingIOError:
        return True
    except OSError:
        return False


def hold(workspace: bytes) -> None:
    """Keep a shared lock on the workspace while this guard lives: who removes it waits for that."""
    with contextlib.suppress(
        OSError
    ):  # a file system without locks: the remover then does not wait
        fcntl.flock(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH | fcntl.LOCK_NB)


def poller(*fds: int) -> select.poll:
    """A poll object for what there is of `fds`."""
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return poll


def exit_code(status: int) -> int:
    """The exit code of a wait status, as a shell gives it: 128 + n after signal n."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
