"""Draws what `python -m bench --save RESULTS` measured: `python -m bench.plot RESULTS FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib import pyplot

pyplot.rcParams["svg.fonttype"] = "none"  # text stays text
pyplot.rcParams["svg.hashsalt"] = "glpcore"  # the same drawing gives the same bytes

HIDDEN = ("glpcore again", "read", "rank 1")


def draw(results: list[dict], title: str, path: Path) -> None:
    """One group of bars a case, one bar a peer; 1 is glpcore's own time."""
    peers = [p for p in results[0]["ratios"] if p not in HIDDEN]
    height = 0.8 / len(peers)
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.16 * len(peers) * len(results)))
    for i, peer in enumerate(peers):
        places = [row + i * height for row in range(len(results))]
        values = [result["ratios"].get(peer, (0, 0))[0] for result in results]
        bars = axes.barh(places, values, height, label=peer)
        axes.bar_label(bars, [f"{value:.2f}" for value in values], fontsize=6, padding=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks([row + 0.4 for row in range(len(results))], [r["case"] for r in results])
    axes.invert_yaxis()
    axes.set_xlabel("time of the peer / time of glpcore")
    axes.set_title(title)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(results: str, folder: str) -> None:
    single = [r for r in json.loads(Path(results).read_text()) if r["threads"] == 1]
    full = [r for r in single if len(r["ratios"]) > 3]  # float32 at rank 1 has every peer
    large = [r for r in full if r["microseconds"]["glpcore"] > 1000]
    halves = [
        r for r in single if r["case"].startswith(("f16", "bf16")) and "rank" not in r["case"]
    ]
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    draw(large, "float32 beyond the caches, one thread", where / "rows-large.svg")
    draw([r for r in full if r not in large], "float32 in the caches, one thread",
         where / "rows-cached.svg")  # fmt: skip
    draw(halves, "float16 and bfloat16, one thread", where / "rows-16-bit.svg")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
