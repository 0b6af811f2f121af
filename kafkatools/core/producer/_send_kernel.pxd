# The C types of _send_kernel.py. `last_ms` is a 64-bit timestamp; sizes of records are below 2^31.
cimport cython

cdef class RecordRows:
    cdef public object topic, partition
    cdef public long long room_bytes, last_ms
    cdef public Py_ssize_t count
    cdef public list keys, values, first_rows, stamps
    cdef public dict callbacks
    @cython.locals(row=Py_ssize_t, room_bytes="long long")
    cpdef Py_ssize_t append(self, key, value, long long timestamp) except -2
    @cython.locals(room_bytes="long long")
    cpdef Py_ssize_t offer(self, partition, key, value, long long timestamp) except -2

cdef class RowFuture:
    cdef public object records
    cdef public Py_ssize_t row

cdef class OpenRows:
    cdef public dict collected
    cdef public object lock, make_future
    @cython.locals(records=RecordRows, row=Py_ssize_t)
    cpdef accept(self, topic, partition, key, value, long long timestamp, callback)
