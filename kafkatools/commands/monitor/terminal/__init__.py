"""The view of kt monitor with keys, on Textual: tables that lead from the cluster to brokers, topics, partitions,
groups and members.

Rules: these modules are imported when the view starts, since Textual is an extra; only `app.py`, `table.py`,
`panels.py` and `run.py` know it. The application's thread never waits for a broker: `collecting.py` takes the
snapshots, `details.py` reads the data of the open place, and `diagnosis.py` diagnoses, each on a thread and connections
of its own, and they hand results to the application as messages.

Names and error texts reach the screen only through `kafkatools.output.visible`, as segments or Rich texts, never as
markup. Table lines are drawn for visible rows only, so a key costs the same with ten rows and with ten thousand.
"""
