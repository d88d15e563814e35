"""Ratio benchmarks of glpcore against real peers, all in one run: `python -m bench --help`."""
