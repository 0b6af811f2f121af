"""Following a leader: replica fetchers, in-sync replicas, throttles."""
