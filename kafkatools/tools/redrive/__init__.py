"""Send the records of a dead-letter topic back to the topics that they came from, each once (kt redrive)."""
