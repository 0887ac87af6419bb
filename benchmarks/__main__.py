"""`python -m benchmarks [NAME ...] [--quick] [--output FILE]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

NAMES = ("throughput", "protocols", "startup", "resume", "simulation", "docker", "gateway")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works")
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks.json"), help="where the figures go"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    figures = {}
    for name in arguments.names or NAMES:
        print(f"\n{name}\n")
        figures[name] = importlib.import_module(f"benchmarks.{name}").run(quick=arguments.quick)
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
    }
    arguments.output.write_text(json.dumps(about | figures, indent=2) + "\n")
    print(f"\n{arguments.output}")


if __name__ == "__main__":
    main()
