"""Named workloads, each side by side with its peer in the same run. `python -m benchmarks [NAME ...]`; one JSON line per figure."""
