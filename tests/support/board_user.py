"""A process that uses an endpoint's board: `python -m support.board_user DIRECTORY TOPIC IN_USE WAITING`.

It says how it stands whenever a line comes in, and answers with a line: how many others there are, its rank, and what
they have in flight.
"""

import sys
from pathlib import Path

from agentcompass.net.board import Membership
from agentcompass.net.shares import Standing


def main(directory, topic, in_use, waiting):
    membership = Membership(Path(directory), topic)
    standing = Standing(cap=64, in_use=int(in_use), waiting=int(waiting))
    print("ready", flush=True)
    for _ in sys.stdin:
        company = membership.exchange(standing)
        print(len(company.others), company.rank, company.in_use, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
