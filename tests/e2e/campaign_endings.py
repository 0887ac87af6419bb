"""The long form of test_interrupts.py and test_launch_endings.py: hundreds of endings, and tables of what they showed. Run by `just campaign`."""

import os
from collections import Counter

import attrs
import pytest

from support.interrupts import (
    KINDS,
    LAUNCH_KINDS,
    WHOLE_SECONDS,
    interrupt,
    interrupt_launch,
    kill,
    moments,
)
from support.launches import Launch, undisturbed
from support.workload import Workload

COUNT = int(os.environ.get("CAMPAIGN_COUNT", "200"))


def show(capsys, title, rows, whole=WHOLE_SECONDS):
    """Print a table with a line for each tenth of the whole in which it was ended."""
    tenth = whole / 10
    with capsys.disabled():
        print(f"\n{title}: {len(rows)} runs, nothing lost, nothing left")
        print(
            "   moment   runs  slowest end s  finished before  left to the ledger  exit codes, requests"
        )
        for number in range(10):
            of = [row for row in rows if int(row.moment / tenth) == number]
            if of:
                print(
                    f"{tenth * number:4.1f}-{tenth * (number + 1):3.1f}    {len(of):5}"
                    f"  {max(r.seconds for r in of):13.2f}"
                    f"  {sum(r.finished for r in of):15}  {sum(r.left for r in of):18}"
                    f"  {dict(Counter(r.exit_code for r in of))}"
                    f" {dict(Counter(status for r in of for status in r.statuses)) or ''}"
                )


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_signals(tmp_path, capsys, kind):
    rows = []
    for number, moment in enumerate(moments(COUNT // len(KINDS), f"campaign {kind}")):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows.append(interrupt(Workload(folder), kind, moment))
    show(capsys, kind, rows)


@pytest.mark.timeout(7200)
def test_kills(tmp_path, capsys):
    rows = []
    for number, moment in enumerate(moments(COUNT, "campaign kill")):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows.append(kill(Workload(folder), moment))
    show(capsys, "kill -9", rows)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", LAUNCH_KINDS)
def test_launches(tmp_path, capsys, kind):
    whole, rows = undisturbed(tmp_path), []
    for number, share in enumerate(
        moments(COUNT // 2 // len(LAUNCH_KINDS), f"launches {kind}", 1.0)
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Launch(folder) as launch:
            row = interrupt_launch(launch, kind, whole.moment(kind, share), whole.scores)
        rows.append(attrs.evolve(row, moment=share))
    show(capsys, f"launches, {kind}, by share of the whole", rows, whole=1.0)
