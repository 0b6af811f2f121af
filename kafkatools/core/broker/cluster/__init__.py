"""One node among several: connections to the others, registration and heartbeats, forwarding, applying metadata."""
