# The C types of _gather_kernel.py. Pointers carry no length: a function that takes one also takes its end.
cimport cython
from cpython cimport array
from kafkatools.core.records._kernel cimport _copy, _int_items, _items, _long_items, _long_varint, _long_varlong, _skip_headers, _slots

@cython.locals(byte=int)
cdef (long long, Py_ssize_t) _number(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil
@cython.locals(byte=int)
cdef (long long, Py_ssize_t) _wide_number(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil
cdef long long _wrapped(unsigned long long value) noexcept nogil
cdef Py_ssize_t _after(Py_ssize_t position, long long size, Py_ssize_t end) noexcept nogil
@cython.locals(
    base_offset="long long", base_timestamp="long long", append_time="long long", has_append_time=bint, slot=Py_ssize_t,
    size="long long", position=Py_ssize_t, limit=Py_ssize_t, timestamp="long long", delta="long long",
)
cdef (Py_ssize_t, Py_ssize_t) _decode_batch(
    const unsigned char* data, Py_ssize_t after, Py_ssize_t end, const long long* batches, Py_ssize_t batch, long long* places, Py_ssize_t row, Py_ssize_t stop
) noexcept nogil
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, headers="long long*", rows="long long*", record_counts="int*", room=Py_ssize_t, width=Py_ssize_t, state="long long*",
    batch=Py_ssize_t, record="long long", after=Py_ssize_t, row=Py_ssize_t, reason=int, header=Py_ssize_t, slot=Py_ssize_t, first="long long", last="long long",
    count="long long", remaining="long long", reached=Py_ssize_t,
)
cpdef Py_ssize_t decode_batches(
    const unsigned char[::1] data, array.array batches, Py_ssize_t stop, array.array places, array.array counts, array.array run
) except? -1
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, cells="long long*", ends="int*", out="unsigned char*", bits="unsigned char*", numbers="long long*",
    row=Py_ssize_t, rows=Py_ssize_t, size=Py_ssize_t, nulls="long long", room=Py_ssize_t, width=Py_ssize_t, slot=Py_ssize_t, length="long long", start="long long",
)
cpdef Py_ssize_t gather_cells(
    const unsigned char[::1] data, array.array places, Py_ssize_t column, Py_ssize_t stop, array.array offsets, unsigned char[::1] target,
    unsigned char[::1] validity, array.array state
) except? -1
@cython.locals(slot=Py_ssize_t, size="long long")
cdef bint _list_record(const unsigned char* data, Py_ssize_t position, long long count, Py_ssize_t end, long long* places, Py_ssize_t row) noexcept nogil
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, cells="long long*", sums="int*", header_places="long long*", bits="unsigned char*", numbers="long long*",
    row=Py_ssize_t, rows=Py_ssize_t, total="long long", nulls="long long", room=Py_ssize_t, width=Py_ssize_t, header_count=Py_ssize_t, slot=Py_ssize_t, count="long long",
)
cpdef Py_ssize_t list_headers(
    const unsigned char[::1] data, array.array places, Py_ssize_t stop, array.array ends, unsigned char[::1] validity, array.array headers,
    array.array state
) except? -1
