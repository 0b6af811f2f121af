"""What people ask of a log, each one a function of DataFrames in a module of its own.

What needs no Spark (the walk through a file, the rules of retention) stands in modules beside them and is tested by
itself; these import neither pyspark nor pyarrow.
"""
