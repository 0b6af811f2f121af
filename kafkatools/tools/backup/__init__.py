"""Back up topics into a directory or an object store, verify the backup, and restore it to a cluster."""
