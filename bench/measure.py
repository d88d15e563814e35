"""How it is measured: everyone in turns, in a new order every round, on one buffer."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from bench.contenders import Contender, error

Times = dict[str, list[float]]


def check(contender: Contender, x: np.ndarray, directions: np.ndarray) -> None:
    """Raises ValueError when what the contender makes of x is not the projection."""
    if contender.tolerance is None:
        return
    sample = slice(0, min(len(x), 64))
    before = x.copy()
    contender.run()
    found = error(x[sample], before[sample], directions)
    x[...] = before
    if not found <= contender.tolerance:
        raise ValueError(
            f"{contender.name} is wrong by {found:.2g} of a row's largest element; "
            f"{contender.tolerance:.2g} is allowed"
        )


def _sample(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def rounds(contenders: Sequence[Contender], seconds: float, least: int = 5) -> Times:
    """Seconds per call of each contender, one number per round."""
    calls = {}
    for contender in contenders:
        once = min(_sample(contender.run, 2) for _ in range(3))
        calls[contender.name] = 2 * max(1, round(1e-4 / once))  # even, and 200 us or more
    times: Times = {contender.name: [] for contender in contenders}
    end = time.perf_counter() + seconds
    order = list(contenders)
    while time.perf_counter() < end or len(times[order[0].name]) < least:
        random.shuffle(order)
        for contender in order:
            times[contender.name].append(_sample(contender.run, calls[contender.name]))
    return times


def ratio(times: Times, peer: str, mine: str = "glpcore") -> tuple[float, float]:
    """How many times as long the peer takes: of the minima, and the median of the rounds'."""
    pairs = [a / b for a, b in zip(times[peer], times[mine], strict=True)]
    return min(times[peer]) / min(times[mine]), statistics.median(pairs)


def unrest(times: Times) -> float:
    """How far the A/A pair is from 1."""
    a = ratio(times, "glpcore again")[0]
    return max(a, 1 / a) - 1
