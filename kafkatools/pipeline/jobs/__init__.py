"""The jobs of `kt pipeline` besides `run`, each a module of functions on DataFrames.

Parts that need no Spark, such as the walk through a file and the retention rules, are separate modules with their own
tests; these import neither pyspark nor pyarrow.
"""
