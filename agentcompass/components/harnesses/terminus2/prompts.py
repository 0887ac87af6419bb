"""What the model is told: how it works, what it sees, what was wrong with its reply. The words are AgentCompass's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

Form: TypeAlias = Literal["json", "xml"]

_WORK: Final = """\
You solve a task on a Linux machine, through a terminal and by yourself: nobody reads along, and nobody answers questions. \
You are shown the terminal. You reply with the keys to press; they are pressed, the time you ask for passes, and you are \
shown what is new on the terminal. This goes on until you say that the task is complete."""

_JSON_FORM: Final = """\
Reply with one JSON object and nothing else:

{
  "analysis": "What the terminal shows: what has been done, and what is left to do.",
  "plan": "What you do next, and what you expect to see.",
  "commands": [
    {"keystrokes": "ls -la\\n", "duration": 0.1},
    {"keystrokes": "make test\\n", "duration": 20}
  ],
  "task_complete": false
}

`analysis`, `plan` and `commands` are required; `task_complete` is false if it is missing. The list of commands may be \
empty if you only want to see the terminal again. Escape line ends, quotes and backslashes in texts as JSON demands."""

_XML_FORM: Final = """\
Reply with these tags and nothing else:

<response>
<analysis>What the terminal shows: what has been done, and what is left to do.</analysis>
<plan>What you do next, and what you expect to see.</plan>
<commands>
<keystrokes duration="0.1">ls -la
</keystrokes>
<keystrokes duration="20">make test
</keystrokes>
</commands>
<task_complete>false</task_complete>
</response>

`analysis`, `plan` and `commands` are required; `task_complete` is false if it is missing. `commands` may be empty if you \
only want to see the terminal again. Keystrokes are taken exactly as they stand between the tags, line ends included: write \
< and & as they are, not as entities."""

_KEYS: Final = """\
About `keystrokes`:
- They are pressed exactly as written. A command line is carried out only if it ends in a newline.
- For a special key, give its name in tmux as the whole of one command's keystrokes, without a newline: C-c for Ctrl-C, C-d, \
Escape, Tab, Up, PageDown, F1.
- All commands of a reply are pressed in order, without a look at the terminal in between.
About `duration`:
- It is the number of seconds to wait after the keys before anything else happens; 1 if you do not say. The wait is never \
cut short, and a program that takes longer goes on running.
- Take 0.1 for what answers at once (cd, ls, echo, cat), 1 for what takes a little (gcc, find), and longer for builds, tests \
and downloads. More than 60 is cut to 60: for what takes longer, wait again, with empty keystrokes or an empty list of \
commands."""

_FORMS: Final[Mapping[Form, str]] = {"json": _JSON_FORM, "xml": _XML_FORM}
_CONFIRM: Final[Mapping[Form, str]] = {
    "json": 'reply with "task_complete": true once more',
    "xml": "reply with <task_complete>true</task_complete> once more",
}
_NAMES: Final[Mapping[Form, str]] = {"json": "JSON object", "xml": "<response>"}


def introduction(form: Form) -> str:
    """Return what stands before the task."""
    return f"{_WORK}\n\n{_FORMS[form]}\n\n{_KEYS}\n\nThe task:"


def opening(screen: str) -> str:
    """Return what stands after the task, in the first message."""
    return f"The terminal now:\n{screen}"


def seen(screen: str, *, is_new: bool) -> str:
    """Return what the terminal shows.

    Args:
        screen: Its text.
        is_new: It is what was added since the last look, rather than all that is visible.
    """
    what = "New on the terminal" if is_new else "The terminal now"
    return f"{what}:\n{screen}"


def with_warnings(warnings: Sequence[str], text: str) -> str:
    """Return a text with what was odd about the last reply before it."""
    if not warnings:
        return text
    listed = "\n".join(f"- {warning}" for warning in warnings)
    return f"Your last reply was followed, with these warnings:\n{listed}\n\n{text}"


def correction(form: Form, error: str, warnings: Sequence[str]) -> str:
    """Return what the model is told about a reply that could not be followed."""
    noted = "".join(f"\n- {warning}" for warning in warnings)
    more = f"\nAlso:{noted}" if noted else ""
    return (
        f"Nothing was done: your last reply could not be read: {error}.{more}\n"
        f"Reply again, with one complete {_NAMES[form]} in the form described at the beginning."
    )


def cut_off(form: Form) -> str:
    """Return what the model is told about a reply that reached the limit of its length."""
    return (
        "Nothing was done: your last reply was cut off, since it reached the longest output that you may make.\n"
        f"Reply again with one complete {_NAMES[form]} that is shorter; do in several replies what does not fit into one."
    )


def confirmation(form: Form, shown: str) -> str:
    """Return the question whether the task is really complete."""
    return (
        f"{shown}\n\n"
        "You say that the task is complete. Your work will be judged as it stands now, and you cannot correct it any more. "
        f"If you are sure, {_CONFIRM[form]}. If not, go on."
    )


def restarted(reason: str, shown: str) -> str:
    """Return what the model is told when its terminal was lost."""
    return (
        f"Your terminal is gone ({reason}), with what ran in its foreground and the keys that were still to be pressed. "
        f"This is a new one; files are as they were. It will not be replaced a second time.\n\n{shown}"
    )


# --- the hand-off

SUMMARY: Final = """\
The conversation is about to become too long for you. Somebody else will go on with the task, who has seen nothing of it \
and will have only what you write now. Write a complete account: what the task asks for; what has been done, with the \
commands that mattered and what they showed; which files, programs, values and settings were found, made or changed, with \
their exact names and contents where those matter; what went wrong and what was learned from it; where things stand now, and \
what is left to do. Write it as plain text, not in the form of a reply."""


def questions(summary: str, screen: str) -> str:
    """Return what the successor is asked first; the task stands before it."""
    return (
        "Somebody else has worked on this task before you, and hands it over to you.\n\n"
        f"Their account:\n{summary}\n\n"
        f"{opening(screen)}\n\n"
        "Before you go on you may ask them, once. Ask at least five questions about what you need to know and the account "
        "does not say: about decisions, details, dead ends, what was verified and how. Ask only; press no keys yet."
    )


def answers(asked: str) -> str:
    """Return what the predecessor is asked."""
    return (
        "Whoever goes on with the task has read your account and asks:\n\n"
        f"{asked}\n\n"
        "Answer each question, in detail, from what you have seen. Say so where you do not know. Plain text again."
    )


def go_on(form: Form, answered: str, shown: str) -> str:
    """Return what the successor is told last."""
    return (
        f"These are the answers:\n\n{answered}\n\n"
        f"Now go on with the task. From here on, reply with the {_NAMES[form]} described at the beginning.\n\n{shown}"
    )


def short_summary(screen: str, shown: str) -> str:
    """Return what a model is asked for when the whole conversation is too long to be summed up; the task stands before."""
    return (
        "Somebody has worked on this task, and their notes are lost. This is what is left:\n\n"
        f"{opening(screen)}\n\nThe last they were told:\n{shown}\n\n"
        "Write for whoever goes on: what seems to have been done, where things stand, and what to look at first. Be short."
    )


def took_over(account: str | None, shown: str) -> str:
    """Return what the successor is told without questions and answers."""
    if account is None:
        account = "There is none: look for yourself at what has been done."
    return (
        "Somebody else has worked on this task before you. "
        f"What is known about it:\n{account}\n\nGo on with the task.\n\n{shown}"
    )
