"""An example of a plugin for kafkatools."""
