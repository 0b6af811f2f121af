"""Read the records of log directories without a broker: never lock, never write, in bounded memory.

The files may belong to a running broker, which appends, rolls, cleans and deletes meanwhile. So each file is opened
for one read at a time and never mapped, and only bytes that were there when the log was opened are read.
"""
