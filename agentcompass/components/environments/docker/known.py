"""Names that an engine knows without being asked: capabilities, platforms, security options. Pure."""

from __future__ import annotations

import re
from typing import Final

from agentcompass.errors import did_you_mean

_CAPABILITIES: Final = """
AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER
FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE
NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE
SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM
"""
CAPABILITIES: Final = frozenset(_CAPABILITIES.split())
"""Source: capabilities(7), Linux 6."""
_ARCHITECTURES: Final = """
386 aarch64 amd64 arm arm64 armel armhf i386 loong64 mips64 mips64le ppc64le riscv64 s390x x86-64 x86_64
"""
ARCHITECTURES: Final = frozenset(_ARCHITECTURES.split())
"""Source: the names of Go, and those that github.com/containerd/platforms takes for one of them."""
OPTIONS: Final = frozenset(
    ("apparmor", "label", "no-new-privileges", "seccomp", "systempaths", "writable-cgroups")
)
"""What can stand before the sign in a security option."""
_USER: Final = re.compile(r"[^\s:\0]+(:[^\s:\0]+)?")


def capability_problem(name: str) -> str | None:
    """Return what is wrong with a capability that is to be dropped."""
    bare = name.upper().removeprefix("CAP_")
    if bare in CAPABILITIES or bare == "ALL":
        return None
    return f"cap_drop has {name!r}, which is no capability{did_you_mean(bare, CAPABILITIES)}"


def platform_problem(text: str) -> str | None:
    """Return what is wrong with a platform: `OS/ARCHITECTURE`, `OS/ARCHITECTURE/VARIANT`, or one of the two alone."""
    words = text.lower().split("/")
    system = words.pop(0) if len(words) > 1 or words[0] not in ARCHITECTURES else "linux"
    if system != "linux":
        return f"platform {text!r} is not linux/ARCHITECTURE, such as linux/amd64"
    if words and words[0] not in ARCHITECTURES:
        near = did_you_mean(words[0], ARCHITECTURES)
        return f"platform {text!r}: there is no architecture {words[0]!r}{near}"
    if len(words) > 2 or not all(words):
        return f"platform {text!r} is not linux/ARCHITECTURE/VARIANT, such as linux/arm64/v8"
    return None


def user_problem(text: str) -> str | None:
    """Return what is wrong with a user; whether there is one of that name, only the image knows."""
    if _USER.fullmatch(text):
        return None
    return f"user {text!r} is no name or uid, perhaps with :group"


def option_problem(text: str, name: str) -> str | None:
    """Return what is wrong with a security option of that name."""
    if name in OPTIONS:
        return None
    return f"security_opt {text[:60]!r} is none that an engine knows{did_you_mean(name, OPTIONS)}"
