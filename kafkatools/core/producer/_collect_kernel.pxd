# The C types of _collect_kernel.py. Sizes of collections are below 2^31.
cimport cython
from cpython cimport array
from cpython.array cimport resize_smart
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    int PyByteArray_Resize(bytearray data, Py_ssize_t size) except -1
    char* PyByteArray_AS_STRING(bytearray data)
    char* PyBytes_AS_STRING(bytes cell)

cdef inline int put_int(array.array column, int value) except -1:
    cdef Py_ssize_t size = len(column)
    resize_smart(column, size + 1)
    column.data.as_ints[size] = value
    return 0

cdef inline int put_long(array.array column, long long value) except -1:
    cdef Py_ssize_t size = len(column)
    resize_smart(column, size + 1)
    column.data.as_longlongs[size] = value
    return 0

# The rows of a column up to `count`, each byte of which is `byte`.
cdef inline int put_gaps(array.array column, Py_ssize_t count, int byte) except -1:
    cdef Py_ssize_t size = len(column)
    if count > size:
        resize_smart(column, count)
        memset(column.data.as_ints + size, byte, (count - size) * sizeof(int))
    return 0

cdef class RecordRows:
    cdef public object topic, partition
    cdef public long long room_bytes
    cdef public Py_ssize_t count, reserved_bytes
    cdef public bytearray data
    cdef public array.array key_positions, key_lengths, value_positions, value_lengths, timestamps
    cdef public dict callbacks
    cpdef Py_ssize_t append(self, key, value, long long timestamp) except -2
    @cython.locals(row=Py_ssize_t, position=Py_ssize_t, key_bytes=Py_ssize_t, value_bytes=Py_ssize_t, stop=Py_ssize_t)
    cdef Py_ssize_t _add(self, bytes key, bytes value, long long timestamp) except -2
    cpdef Py_ssize_t offer(self, partition, key, value, long long timestamp) except -2
    @cython.locals(room_bytes="long long")
    cdef Py_ssize_t _offer(self, partition, bytes key, bytes value, long long timestamp) except -2

# A bytearray that grows by an eighth copies each byte nine times: it is made twice as large, then cut, which keeps its memory.
cdef inline int put_bytes(RecordRows rows, bytes cell) except -1:
    cdef Py_ssize_t start = len(rows.data)
    cdef Py_ssize_t size = len(cell)
    if start + size > rows.reserved_bytes:
        rows.reserved_bytes = 2 * (start + size)
        PyByteArray_Resize(rows.data, rows.reserved_bytes)
    PyByteArray_Resize(rows.data, start + size)
    memcpy(PyByteArray_AS_STRING(rows.data) + start, PyBytes_AS_STRING(cell), size)
    return 0

cpdef bytes bytes_of(cell)

cdef class RowFuture:
    cdef public object records
    cdef public Py_ssize_t row

cdef class OpenRows:
    cdef public dict collected
    cdef public object lock
    cdef public type future_type
    cpdef accept(self, topic, partition, key, value, long long timestamp, callback)
    @cython.locals(future=RowFuture, key_bytes=bytes, value_bytes=bytes)
    cdef _accept(self, topic, partition, key, value, long long timestamp, callback)
    @cython.locals(records=RecordRows, row=Py_ssize_t)
    cdef _take(self, RowFuture future, topic, partition, bytes key, bytes value, long long timestamp, callback)

cdef class PlainSends:
    cdef public bint is_plain
    cdef public OpenRows open_rows
    cdef public object serialize_key, serialize_value, wall_ns
    @cython.locals(rows=OpenRows, wall_ns="long long", wall_ms="long long")
    cdef _send_plain(self, topic, value, key, partition, callback)
