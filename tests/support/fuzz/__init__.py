"""Generators and harnesses of `make fuzz`: frames, batches, responses and files that are almost right."""
