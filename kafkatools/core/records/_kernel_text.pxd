# The C types of _kernel_text.py.
cimport cython
from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memchr, memcmp, memcpy
from kafkatools.core.records._kernel cimport _copy, _int_items, _is_inside, _items, _long_items, _varint

cdef int _resize(bytearray out, Py_ssize_t size) except -1
cdef unsigned char* _writable(bytearray out) noexcept
@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _put_text(unsigned char* slots, Py_ssize_t position, bytes text) noexcept
@cython.locals(rest="unsigned long long", size=int, end=Py_ssize_t, place=Py_ssize_t)
cdef Py_ssize_t _put_number(unsigned char* slots, Py_ssize_t position, long long value) noexcept
cdef unsigned long long _magnitude(long long value) noexcept nogil

cdef const unsigned char* _searchable(const unsigned char[::1] data) noexcept
@cython.locals(found="const unsigned char*")
cdef Py_ssize_t _find(const unsigned char* source, int byte, Py_ssize_t start, Py_ssize_t end) noexcept
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, starts="int*", sizes="int*", room=Py_ssize_t, position=Py_ssize_t, newline=Py_ssize_t,
    carriage=Py_ssize_t, row=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t,
)
cpdef Py_ssize_t find_lines(const unsigned char[::1] data, Py_ssize_t start, bint is_end, array.array positions, array.array lengths, array.array status) except? -1
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, value_positions="int*", value_lengths="int*", key_positions="int*", key_lengths="int*",
    row=Py_ssize_t, size=Py_ssize_t, position=Py_ssize_t, length=Py_ssize_t, place=Py_ssize_t,
)
cpdef Py_ssize_t split_keys(const unsigned char[::1] data, bytes separator, tuple values, tuple keys, Py_ssize_t start, Py_ssize_t stop) except? -1
@cython.locals(size=Py_ssize_t, place=Py_ssize_t, letters="const unsigned char*")
cdef Py_ssize_t _find_text(const unsigned char* source, bytes text, Py_ssize_t start, Py_ssize_t end) noexcept

cpdef Py_ssize_t write_values(object columns, bytearray out, bytes separator, bytes null_literal) except? -1
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, has_keys=bint, middle=bytes, values="int*", value_sizes="int*", keys="int*", key_sizes="int*",
    count=Py_ssize_t, need=Py_ssize_t, null_size=Py_ssize_t, fixed=Py_ssize_t, row=Py_ssize_t, length=Py_ssize_t, position=Py_ssize_t,
    slots="unsigned char*",
)
cpdef Py_ssize_t write_keys_and_values(object columns, bytearray out, bytes key_separator, bytes separator, bytes null_literal) except? -1
cdef Py_ssize_t _row_count(object columns) except? -1
cdef Py_ssize_t _put_cell(unsigned char* slots, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t length, bytes null_literal) noexcept

cdef bint _is_continuation(int byte) noexcept nogil
@cython.locals(first=int, left=Py_ssize_t)
cdef int _sequence(const unsigned char* source, Py_ssize_t position, Py_ssize_t end) noexcept nogil
@cython.locals(first=int, second=int)
cdef int _sequence_of_three(const unsigned char* source, Py_ssize_t position, Py_ssize_t left) noexcept nogil
@cython.locals(first=int, second=int)
cdef int _sequence_of_four(const unsigned char* source, Py_ssize_t position, Py_ssize_t left) noexcept nogil
@cython.locals(end=Py_ssize_t, sound=Py_ssize_t, step=int)
cdef Py_ssize_t _put_utf8(unsigned char* slots, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept
@cython.locals(size=Py_ssize_t)
cpdef bytes java_utf8(const unsigned char[::1] data)

@cython.locals(total=Py_ssize_t, size="long long")
cdef Py_ssize_t _header_names_size(const unsigned char* source, Py_ssize_t position, Py_ssize_t count, Py_ssize_t end) noexcept nogil
@cython.locals(index=Py_ssize_t, size="long long")
cdef Py_ssize_t _put_header_names(unsigned char* slots, Py_ssize_t position, const unsigned char* source, Py_ssize_t place, Py_ssize_t count, Py_ssize_t end) noexcept
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, offsets="long long*", timestamps="long long*", values="int*", value_sizes="int*",
    keys="int*", key_sizes="int*", headers="int*", header_counts="int*", count=Py_ssize_t, label=bytes, has_metadata=bint, has_data=bint,
    position=Py_ssize_t, room=Py_ssize_t, slots="unsigned char*", row=Py_ssize_t, key_size=Py_ssize_t, value_size=Py_ssize_t, names=Py_ssize_t,
    need=Py_ssize_t, overhead=Py_ssize_t,
)
cpdef Py_ssize_t format_records(object columns, bytearray out, long long base_offset, int base_sequence, int flags) except? -1
cdef Py_ssize_t _put_data(unsigned char* slots, Py_ssize_t position, const unsigned char* source, bytes name, Py_ssize_t start, Py_ssize_t size) noexcept
cdef long long _sequence_number(long long base, long long delta) noexcept nogil
