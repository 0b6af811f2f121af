"""Read the configuration files of other tools, to make profiles of their clusters."""
