"""Copy the records of a topic to another topic, exactly once, and compare both (kt copy)."""
