"""The judgement of the benchmarks: ratios, the A/A gate, goals, and that a wrong peer is caught."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.contenders import Case, Contender, error
from bench.goals import judge
from bench.measure import check, ratio, rounds, unrest

LARGE = Case("f32", 4096, 4096)


def times(again: float = 1.0, limit: float = 0.95, numba: float = 1.31) -> dict[str, list[float]]:
    return {
        "glpcore": [1.0, 1.5, 2.0],
        "glpcore again": [again, 2.0, 2.0],
        "in-place scale": [limit, 3.0, 3.0],
        "read": [0.8, 0.9, 0.9],
        "numba fastmath": [numba, 3.0, 2.0],
    }


def test_ratio_of_the_minima_and_median_of_the_rounds():
    assert ratio(times(), "in-place scale") == (0.95, 1.5)
    assert ratio(times(), "numba fastmath") == (1.31, 1.31)


@pytest.mark.parametrize(("again", "found"), [(1.0, 0.0), (1.25, 0.25), (0.8, 0.25)])
def test_unrest_counts_both_ways(again, found):
    assert unrest(times(again)) == pytest.approx(found)


@pytest.mark.parametrize(
    ("given", "states"),
    [
        ({}, ["met", "met"]),
        ({"limit": 0.89}, ["missed", "met"]),
        ({"numba": 1.29}, ["met", "missed"]),
        ({"again": 0.9}, ["not judged", "not judged"]),
    ],
)
def test_goals(given, states):
    assert [verdict.state for verdict in judge(LARGE, times(**given), 1)] == states


def test_goals_by_size():
    (small, _) = judge(Case("f32", 16, 4096), times(), 1)
    assert (small.found, small.wanted, small.state) == (1.75, 0.75, "met")
    (half, _) = judge(Case("bf16", 8192, 4096), times(), 1)
    assert (half.found, half.wanted, half.state) == (0.95, 0.84, "met")
    (rank,) = judge(Case("f32", 4096, 4096, 2), {**times(), "rank 1": [0.7, 1, 1]}, 1)
    assert (rank.found, rank.state) == (0.7, "missed")


def test_a_wrong_peer_is_caught():
    x = np.arange(24, dtype="f4").reshape(3, 8)
    v = np.full((1, 8), 8**-0.5, "f4")
    before = x.copy()

    def right() -> None:
        x[...] -= (x @ v[0])[:, None] * v[0]

    def wrong() -> None:
        x[...] -= (x @ v[0])[:, None] * v[0] * np.float32(1.01)

    check(Contender("right", right, 1e-5), x, v)
    with pytest.raises(ValueError, match="wrong is wrong by"):
        check(Contender("wrong", wrong, 1e-5), x, v)
    assert (x == before).all()
    assert error(before * np.float32(np.nan), before, v) != error(before, before, v)
    with pytest.raises(ValueError, match="wrong by nan"):
        check(Contender("nan", lambda: x.fill(np.nan), 1e-5), x, v)


def test_rounds_take_turns():
    calls = []
    both = [Contender(name, lambda name=name: calls.append(name), None) for name in "ab"]
    found = rounds(both, 0.0, least=5)
    assert [len(found[name]) for name in "ab"] == [5, 5]
    assert calls.count("a") > 10
