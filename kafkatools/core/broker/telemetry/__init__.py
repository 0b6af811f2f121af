"""Metrics that clients push (KIP-714): subscriptions, checks of pushes, and the file that gets the metrics."""
