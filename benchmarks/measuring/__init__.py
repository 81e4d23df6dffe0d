"""The pieces that the benchmarks share."""
