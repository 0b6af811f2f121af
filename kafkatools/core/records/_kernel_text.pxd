# The C types of _kernel_text.py.
cimport cython
from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memchr, memcmp, memcpy
from kafkatools.core.records._kernel cimport _as_int, _as_unsigned_int, _copy, _int_items, _is_inside, _items

cdef int _resize(bytearray out, Py_ssize_t size) except -1
cdef unsigned char* _writable(bytearray out) noexcept
@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _put_text(unsigned char* slots, Py_ssize_t position, bytes text) noexcept

cdef const unsigned char* _searchable(const unsigned char[::1] data) noexcept
@cython.locals(pointer="const unsigned char*")
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

@cython.locals(h="unsigned int", k="unsigned int", end=Py_ssize_t, rest=int)
cdef int _murmur2(const unsigned char* data, Py_ssize_t position, Py_ssize_t length) noexcept nogil
cpdef int murmur2(const unsigned char[::1] data)
@cython.locals(source="const unsigned char*", end=Py_ssize_t, positions="int*", lengths="int*", out="int*", count=Py_ssize_t, row=Py_ssize_t, length=Py_ssize_t)
cpdef Py_ssize_t partitions_for_keys(const unsigned char[::1] data, array.array key_positions, array.array key_lengths, int partition_count, array.array partitions) except? -1
