"""The long form of test_interrupts.py: hundreds of endings, and a table of what they showed. Run by `just campaign`."""

import os
from collections import Counter

import pytest

from support.interrupts import KINDS, interrupt, kill, moments
from support.workload import Workload

COUNT = int(os.environ.get("CAMPAIGN_COUNT", "200"))


def show(capsys, title, rows):
    """Print a table with a line for each tenth of the run in which it was ended."""
    with capsys.disabled():
        print(f"\n{title}: {len(rows)} runs, nothing lost, nothing left")
        print("   moment   runs  slowest end s  finished before  left to the ledger  exit codes")
        for tenth in range(10):
            of = [row for row in rows if int(row.moment / 0.3) == tenth]
            if of:
                print(
                    f"{0.3 * tenth:4.1f}-{0.3 * tenth + 0.3:3.1f} s  {len(of):5}  {max(r.seconds for r in of):13.2f}"
                    f"  {sum(r.finished for r in of):15}  {sum(r.left for r in of):18}"
                    f"  {dict(Counter(r.exit_code for r in of))}"
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
