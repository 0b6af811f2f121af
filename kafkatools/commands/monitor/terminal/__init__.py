"""The view of kt monitor with keys, on Textual: tables that lead from the cluster to brokers, topics, partitions,
groups and members.

Rules: `run.py` is the only module that watch.py imports, and only when the view starts, since Textual is an extra.
`model.py`, `places.py`, `views.py` and `table_state.py` know nothing of Textual. Threads: `collecting.py` takes the
snapshots, `details.py` reads the data of the open place, `diagnosis.py` diagnoses; each has connections of its own and
hands results to the application as messages. The application's thread never waits for a broker.

Names and error texts reach the screen only through `kafkatools.output.visible`, as segments or Rich texts, never as
markup. Table lines are drawn for visible rows only, so a key costs the same with ten rows and with ten thousand.
"""
