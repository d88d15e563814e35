"""Measures glpcore's rows against its peers and says which goals are met."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.contenders import Bench, Case
from bench.goals import Verdict, judge
from bench.measure import check, ratio, rounds, unrest

QUICK = [
    Case("f32", 4096, 4096), Case("f32", 16384, 1024), Case("f16", 8192, 4096),
    Case("bf16", 8192, 4096), Case("f32", 1, 4096), Case("f32", 16, 4096), Case("f32", 64, 4096),
    Case("f32", 4096, 4096, 4),
]  # fmt: skip
FULL = [
    *(Case("f32", (64 << 20) // (4 * n), n) for n in (896, 2048, 4096, 7168)),
    *(Case("f16", (64 << 20) // (2 * n), n) for n in (896, 2048, 4096, 7168)),
    *(Case("bf16", (64 << 20) // (2 * n), n) for n in (896, 2048, 4096, 7168)),
    *(Case("f32", rows, 4096) for rows in (1, 4, 16, 64, 256)),
    *(Case("f32", 64, n) for n in (576, 896, 2048)),
    *(Case(dtype, rows, 4096) for dtype in ("f16", "bf16") for rows in (1, 16, 64)),
    *(Case("f32", 4096, 4096, k) for k in (2, 4, 8)),
    *(Case("bf16", 8192, 4096, k) for k in (2, 4, 8)),
]


def measure(cases: list[Case], threads: int, seconds: float) -> list[dict]:
    """In this process, which is pinned to as many processors as it has threads."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[-threads:])
    bench = Bench()
    results = []
    for case in cases:
        x, directions = bench.rows(case)
        contenders = bench.contenders(case, x, directions, threads)
        for contender in contenders:
            check(contender, x, directions)
        times = rounds(contenders, seconds)
        verdicts = judge(case, times, threads)
        results.append({
            "case": str(case), "threads": threads, "unrest": unrest(times),
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "microseconds": {name: min(t) * 1e6 for name, t in times.items()},
            "ratios": {name: ratio(times, name) for name in times if name != "glpcore"},
            "verdicts": [vars(verdict) for verdict in verdicts], "missing": bench.missing,
        })  # fmt: skip
        print_result(results[-1])
    return results


def print_result(result: dict) -> None:
    """Rows of a table: how many times as long as glpcore everyone takes."""
    us = result["microseconds"]["glpcore"]
    print(f"\n{result['case']}, {result['threads']} thread(s): {us:.1f} us; A/A differs by "
          f"{result['unrest']:.0%}, load {result['load'] or 0:.1f}")  # fmt: skip
    for name, (minima, median) in result["ratios"].items():
        print(f"  {name:20} {minima:7.2f} of the minima {median:7.2f} median of the rounds")
    sys.stdout.flush()


def print_goals(results: list[dict]) -> None:
    verdicts = [Verdict(**v) for result in results for v in result["verdicts"]]
    print("\ngoals")
    for verdict in verdicts:
        print(
            f"  {verdict.state:10} {verdict.goal}: {verdict.found:.2f}, wanted {verdict.wanted:.2f}"
        )
    for package in sorted({name for result in results for name in result["missing"]}):
        print(f"  not measured: {package} is not installed")
    states = [verdict.state for verdict in verdicts]
    print(", ".join(f"{states.count(s)} {s}" for s in ("met", "missed", "not judged")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some of the cases, in two minutes")
    parser.add_argument(
        "--threads", default="1", metavar="N,...",
        help="thread counts, each measured in a process of its own (default: 1)",
    )  # fmt: skip
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases, seconds = (QUICK, 4.0) if arguments.quick else (FULL, 15.0)
    if arguments.child:
        results = measure(cases, arguments.child, seconds)
        arguments.save.write_text(json.dumps(results))
        return 0
    counts = [int(count) for count in arguments.threads.split(",")]
    results = []
    for count in counts:
        part = Path(f"{arguments.save or 'bench-results'}.{count}.part")
        command = [sys.executable, "-m", "bench", "--child", str(count), "--save", str(part)]
        # Peers with threads of their own get as many.
        limits = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(count)
        )
        try:
            subprocess.run(
                [*command, *["--quick"] * arguments.quick], check=True, env=os.environ | limits
            )
            results += json.loads(part.read_text())
        finally:
            part.unlink(missing_ok=True)
    print_goals(results)
    if arguments.save:
        arguments.save.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
