"""What is aimed at: docs/benchmarks.md explains each."""

from __future__ import annotations

from dataclasses import dataclass

from bench.contenders import Case
from bench.measure import Times, ratio, unrest

LARGEST_UNREST = 0.10
LARGE = 56 << 20


@dataclass(frozen=True)
class Verdict:
    goal: str
    found: float
    wanted: float
    state: str  # "met", "missed" or "not judged"


def _verdict(goal: str, found: float, wanted: float, restless: float) -> Verdict:
    """`found` is to be at least `wanted`."""
    state = "met" if found >= wanted else "missed"
    return Verdict(goal, found, wanted, "not judged" if restless > LARGEST_UNREST else state)


PEERS = {  # (anywhere, at sizes beyond the caches)
    "numpy outer": (3.0, 6.5),
    "torch expression": (2.4, 10.0),
    "torch addr_": (1.5, 1.7),
    "scipy sgemv + sger": (1.2, 1.4),
    "plain C loop": (1.2, 1.2),
    "numba fastmath": (1.0, 1.3),
}


def judge(case: Case, times: Times, threads: int) -> list[Verdict]:
    restless = unrest(times)
    large = case.n_bytes >= LARGE
    found = []

    def goal(name: str, value: float, wanted: float) -> None:
        found.append(_verdict(f"{case}: {name}", value, wanted, restless))

    if case.rank > 1:
        wanted = {2: 1.4, 4: 2.2, 8: 3.6}[case.rank]
        goal(f"rank 1 takes 1/{wanted} or more", ratio(times, "rank 1")[0], 1 / wanted)
        return found
    if threads > 1:
        return found
    limit = ratio(times, "in-place scale")[0]
    if large and case.dtype != "f32":
        goal("of in-place scale", limit, 0.84)
    elif large:
        goal("of in-place scale", limit, 0.90 if case.n_embd >= 4096 else 0.75)
    elif case.dtype == "f32" and case.n_rows >= 4:
        both = min(times["in-place scale"]) + min(times["read"])
        goal("of the two-pass bound", both / min(times["glpcore"]), 0.75)
    for peer, (anywhere, beyond) in PEERS.items():
        if peer in times:
            wide = large and (peer != "numba fastmath" or case.n_embd >= 4096)
            goal(peer, ratio(times, peer)[0], beyond if wide else anywhere)
    return found
