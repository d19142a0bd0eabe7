"""Benchmarks: ``python -m bench`` measures and prints beside the targets."""
