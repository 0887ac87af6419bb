from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass._version import __version__
from agentcompass.cli import entry
from agentcompass.cli.help import COLUMNS, page, with_pages
from support.commandline import ROOT, Program


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def test_the_stored_help_is_what_the_whole_command_line_says():
    assert Path(entry.HELP_FILE).read_text(encoding="utf-8") == page(), (
        "python -m agentcompass.cli.help --write"
    )


def test_the_documented_help_is_what_the_command_line_says():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert text.count("<!-- help: ") >= 7
    assert text == with_pages(text), "python -m agentcompass.cli.help --write docs/cli.md"


def test_the_help_fits_a_terminal_of_80_columns():
    for command in ((), ("run",), ("launch",), ("env", "close")):
        assert max(map(len, page(*command).splitlines())) <= COLUMNS


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_goes_to_standard_output(program, arguments):
    done = program(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, page(), "")


def test_the_version_is_the_packages(program):
    done = program("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"agentcompass {__version__}\n", "")


@pytest.mark.parametrize(
    ("argument", "needed"), [("--help", set()), ("--version", {"agentcompass._version"})]
)
def test_quick_answers_import_nothing(argument, needed):
    code = f"""
import sys, agentcompass
before = set(sys.modules)
sys.argv = ["agentcompass", {argument!r}]
from agentcompass.cli.entry import main
main()
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert imported == {"agentcompass.cli", "agentcompass.cli.entry", *needed}


def test_help_costs_a_few_times_what_python_costs():
    def cpu_seconds(*arguments):
        times = []
        for _ in range(6):
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, *arguments],
                {**os.environ, "PYTHONPATH": str(ROOT)},
                file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
            )
            usage = os.wait4(pid, 0)[2]
            times.append(usage.ru_utime + usage.ru_stime)
        return min(times)

    bare = cpu_seconds("-c", "pass")
    # 2.4 times when written; a command line that loads cyclopts takes twenty times
    assert cpu_seconds("-m", "agentcompass.cli", "--help") < 6 * bare


def test_a_reader_who_leaves_is_no_error(program):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with program.start("--help", stdout=write_end) as child:
        os.close(write_end)
        assert child.stderr.read() == ""
        assert child.wait(20) == 0


def test_the_build_reads_the_version_from_the_package():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in pyproject
    assert re.search(r'\[tool\.hatch\.version\]\s*path = "agentcompass/_version\.py"', pyproject)
