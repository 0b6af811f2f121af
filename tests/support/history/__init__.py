"""Recorded histories of clients on three nodes under faults, and the checks of those histories."""
