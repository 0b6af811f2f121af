# The C types of _dump_kernel.py. Pointers carry no length: a function that takes one also takes its end.
cimport cython
from cpython cimport array
from libc.string cimport memcpy, strlen
from kafkatools.core.records._kernel cimport _as_long, _int_items, _long_items, _varint

cdef unsigned char* _target(unsigned char[::1] data) noexcept
cdef const unsigned char* _source(const unsigned char[::1] data) noexcept

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _text(unsigned char* target, Py_ssize_t position, const char* literal) noexcept nogil
cdef Py_ssize_t _bytes(unsigned char* target, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept nogil
@cython.locals(rest="unsigned long long", limit="unsigned long long", size=int, at=Py_ssize_t)
cdef Py_ssize_t _number(unsigned char* target, Py_ssize_t position, long long value) noexcept nogil
cdef long long _sequence(long long base, long long increment) noexcept nogil
@cython.locals(stop=Py_ssize_t, at=Py_ssize_t, all_bits="unsigned char")
cdef bint _is_utf8(const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil
@cython.locals(lead=int, low=int, high=int, more=int)
cdef bint _has_only_sequences(const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) noexcept nogil

@cython.locals(items="long long*", flags="const unsigned char*", bounds="long long*", width=Py_ssize_t, row=Py_ssize_t, slot=Py_ssize_t)
cpdef Py_ssize_t first_irregular(array.array table, Py_ssize_t first, Py_ssize_t stop, unsigned char[::1] valid, array.array state) except? -1
@cython.locals(items="long long*", width=Py_ssize_t, room=Py_ssize_t, out="unsigned char*", position=Py_ssize_t, row=Py_ssize_t, slot=Py_ssize_t)
cpdef Py_ssize_t format_batches(unsigned char[::1] target, array.array table, Py_ssize_t first, Py_ssize_t stop, long long file_position) except? -1
@cython.locals(attributes="long long")
cdef Py_ssize_t _batch_start(unsigned char* out, Py_ssize_t position, long long* items, Py_ssize_t slot) noexcept nogil
@cython.locals(attributes="long long")
cdef Py_ssize_t _batch_end(unsigned char* out, Py_ssize_t position, long long* items, Py_ssize_t slot, long long file_position) noexcept nogil
cdef Py_ssize_t _boolean(unsigned char* out, Py_ssize_t position, long long value) noexcept nogil
cdef Py_ssize_t _codec(unsigned char* out, Py_ssize_t position, long long codec) noexcept nogil

@cython.locals(
    keeper="long long*", rows=Py_ssize_t, offsets="long long*", timestamps="long long*", key_positions="int*", key_lengths="int*",
    value_positions="int*", value_lengths="int*", header_positions="int*", header_counts="int*", source="const unsigned char*",
    out="unsigned char*", position=Py_ssize_t, row=Py_ssize_t, has_prefix="long long",
)
cpdef Py_ssize_t format_records(
    unsigned char[::1] target, const unsigned char[::1] data, long long base_offset, tuple longs, tuple ints, array.array numbers, array.array gaps
) except? -2
cdef Py_ssize_t _timestamp(unsigned char* out, Py_ssize_t position, long long timestamp, long long is_append_time) noexcept nogil
cdef Py_ssize_t _end_line(unsigned char* out, Py_ssize_t position) noexcept nogil
@cython.locals(row=Py_ssize_t)
cdef void _clear(int* counts, Py_ssize_t rows) noexcept nogil
@cython.locals(rows=Py_ssize_t, last="long long", pair_count=Py_ssize_t, row=Py_ssize_t)
cdef bint _note_gaps(long long* offsets, long long base_offset, long long* keeper, long long* pairs, Py_ssize_t room) noexcept nogil
cdef Py_ssize_t _key(unsigned char* out, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t length, long long has_prefix) noexcept nogil
cdef Py_ssize_t _value(unsigned char* out, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t length, long long has_prefix) noexcept nogil
@cython.locals(first=bint, size="long long")
cdef Py_ssize_t _header_names(unsigned char* out, Py_ssize_t position, const unsigned char* source, Py_ssize_t at, Py_ssize_t count, Py_ssize_t end) noexcept nogil
