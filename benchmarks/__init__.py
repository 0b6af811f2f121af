"""Named workloads, each side by side with its peer in the same run.

`python -m benchmarks [NAME ...]` prints one JSON line per figure.
"""
