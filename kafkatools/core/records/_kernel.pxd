# The C types of _kernel.py. Pointers carry no length: a function that takes one also takes its end.
cimport cython
from cpython cimport array
from cpython.array cimport clone
from libc.string cimport memcpy

cdef array.array _LONGS
cdef array.array _INTS

cpdef array.array new_longs(Py_ssize_t count)
cpdef array.array new_ints(Py_ssize_t count)

cdef int _as_int(long long value) noexcept nogil
cdef unsigned int _as_unsigned_int(long long value) noexcept nogil
cdef long long _as_long(unsigned long long value) noexcept nogil
cdef unsigned long long _as_unsigned_long(unsigned long long value) noexcept nogil

cdef const unsigned char* _items(const unsigned char[::1] data) noexcept
cdef unsigned char* _slots(unsigned char[::1] data) noexcept
cdef long long* _long_items(array.array column) except? NULL
cdef int* _int_items(array.array column) except? NULL
cdef void _copy(unsigned char* target, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(shift=int, raw="unsigned long long", byte="unsigned long long")
cdef (long long, Py_ssize_t) _long_varint(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil
@cython.locals(byte=int)
cdef (long long, Py_ssize_t) _varint(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil
@cython.locals(shift=int, raw="unsigned long long", byte="unsigned long long")
cdef (long long, Py_ssize_t) _long_varlong(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil
@cython.locals(byte=int)
cdef (long long, Py_ssize_t) _varlong(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil
cdef unsigned long long _zigzag(long long value) noexcept nogil
@cython.locals(size=int)
cdef int _size_of_unsigned(unsigned long long raw) noexcept nogil
cdef int _size_of(long long value) noexcept nogil
@cython.locals(raw="unsigned long long")
cdef Py_ssize_t _write_varint(unsigned char* target, Py_ssize_t position, long long value) noexcept nogil
cpdef (long long, Py_ssize_t) read_varint(const unsigned char[::1] data, Py_ssize_t position)
cpdef (long long, Py_ssize_t) read_varlong(const unsigned char[::1] data, Py_ssize_t position)
cpdef int size_of_varint(long long value)

cdef Py_ssize_t _skip(Py_ssize_t position, long long size, Py_ssize_t end) noexcept nogil
@cython.locals(size="long long")
cdef Py_ssize_t _skip_headers(const unsigned char* data, Py_ssize_t position, long long count, Py_ssize_t end) noexcept nogil
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, row=Py_ssize_t, after=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t,
    size="long long", timestamp="long long", delta="long long", offsets="long long*", timestamps="long long*",
    key_positions="int*", key_lengths="int*", value_positions="int*", value_lengths="int*", header_positions="int*", header_counts="int*",
    smallest=int,
)
cpdef Py_ssize_t decode_records(
    const unsigned char[::1] data, Py_ssize_t count, long long base_offset, long long base_timestamp, tuple longs, tuple ints, array.array status
) except? -1

@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, row="long long", after=Py_ssize_t, stop=Py_ssize_t, size="long long", timestamp="long long",
    delta="long long", newest="long long", smallest=int,
)
cpdef (long long, Py_ssize_t, long long) check_records(const unsigned char[::1] data, Py_ssize_t position, long long count, long long base_timestamp)

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _body_size(long long timestamp_delta, long long offset_delta, Py_ssize_t key_length, Py_ssize_t value_length, Py_ssize_t headers_size) noexcept nogil
@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t record_size(long long timestamp_delta, long long offset_delta, Py_ssize_t key_length, Py_ssize_t value_length, Py_ssize_t headers_size)
@cython.locals(
    items="long long*", position=Py_ssize_t, rows="long long", base="long long", delta="long long", key_length=Py_ssize_t, value_length=Py_ssize_t,
    headers_size=Py_ssize_t, size=Py_ssize_t, total=Py_ssize_t, slots="unsigned char*",
)
cpdef long long append_record(unsigned char[::1] target, array.array state, long long timestamp, object key, object value, bytes headers) except? -1
cdef Py_ssize_t _append_cell(unsigned char* slots, Py_ssize_t position, object data, Py_ssize_t length) except -1
cdef Py_ssize_t _write_cell(unsigned char* slots, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t length) noexcept nogil
cdef bint _is_inside(Py_ssize_t start, Py_ssize_t length, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _estimate(Py_ssize_t size, double factor) noexcept nogil
@cython.locals(
    has_keys=bint, has_timestamps=bint, source="const unsigned char*", end=Py_ssize_t, slots="unsigned char*", room=Py_ssize_t,
    keys="int*", key_sizes="int*", values="int*", value_sizes="int*", times="long long*", position=Py_ssize_t, rows="long long", delta="long long", base="long long",
    latest="long long", origin=Py_ssize_t, limit=Py_ssize_t, timestamp="long long", needed=Py_ssize_t, row=Py_ssize_t, key_length=Py_ssize_t,
    value_length=Py_ssize_t, size=Py_ssize_t, total=Py_ssize_t,
)
cpdef Py_ssize_t encode_columns(
    unsigned char[::1] target, array.array state, const unsigned char[::1] data, object columns, Py_ssize_t start, Py_ssize_t stop, double factor
) except? -1
