# The C types of _search_kernel.py. Pointers carry no length: a function that takes one also takes its end.
cimport cython
from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memchr, memcmp
from kafkatools.core.records._kernel cimport _int_items, _is_inside, _items, _long_items, _slots, _varint

cdef extern from "string.h" nogil:
    void* memmem(const void* data, size_t size, const void* text, size_t text_size)

cdef const unsigned char* _searchable(const unsigned char[::1] data) noexcept
@cython.locals(letters="const unsigned char*", found="const unsigned char*")
cdef Py_ssize_t _find(const unsigned char* source, bytes text, Py_ssize_t size, Py_ssize_t start, Py_ssize_t end) noexcept
@cython.locals(end=Py_ssize_t)
cdef bint _occurs(const unsigned char* source, bytes text, Py_ssize_t size, Py_ssize_t start, Py_ssize_t length, Py_ssize_t limit, long long* state) noexcept
@cython.locals(cells="long long", length="long long")
cdef bint _header_occurs(const unsigned char* source, bytes text, Py_ssize_t size, Py_ssize_t position, long long count, Py_ssize_t limit, long long* state) noexcept
@cython.locals(cells="long long", length="long long")
cdef Py_ssize_t _headers_end(const unsigned char* data, Py_ssize_t position, long long count, Py_ssize_t end) noexcept
@cython.locals(place=Py_ssize_t)
cpdef Py_ssize_t find_text(const unsigned char[::1] data, bytes text, Py_ssize_t start, Py_ssize_t end) except? -2
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, keys="int*", key_sizes="int*", values="int*", value_sizes="int*", headers="int*", header_counts="int*",
    count=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t, row=Py_ssize_t,
)
cpdef int find_extent(const unsigned char[::1] data, tuple places, int parts, array.array extent) except? -1
@cython.locals(
    keys="int*", key_sizes="int*", values="int*", value_sizes="int*", headers="int*", count=Py_ssize_t, row=Py_ssize_t, last="long long",
)
cpdef bint is_ordered(tuple places) except -1
@cython.locals(
    source="const unsigned char*", limit=Py_ssize_t, keys="int*", key_sizes="int*", values="int*", value_sizes="int*", headers="int*", header_counts="int*",
    count=Py_ssize_t, numbers="long long*", marks="unsigned char*", size=Py_ssize_t, row=Py_ssize_t, marked=Py_ssize_t, is_marked=bint,
    state=array.array,
)
cpdef Py_ssize_t mark_rows(const unsigned char[::1] data, Py_ssize_t origin, tuple places, int parts, bytes text, unsigned char[::1] mask, Py_ssize_t extent) except? -1
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, starts="int*", sizes="int*", count=Py_ssize_t, marks="unsigned char*", size=Py_ssize_t, row=Py_ssize_t, marked=Py_ssize_t,
)
cpdef Py_ssize_t mark_equal(const unsigned char[::1] data, array.array positions, array.array lengths, bytes text, unsigned char[::1] mask) except? -1
cdef bint _is_equal(const unsigned char* source, Py_ssize_t start, bytes text, Py_ssize_t size) noexcept
@cython.locals(source="const unsigned char*", slots="unsigned char*", size=Py_ssize_t, place=Py_ssize_t, byte="unsigned char")
cpdef object lower_letters(const unsigned char[::1] data, Py_ssize_t start, unsigned char[::1] target)
@cython.locals(marks="unsigned char*", numbers="int*", size=Py_ssize_t, room=Py_ssize_t, row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t marked_rows(unsigned char[::1] mask, array.array rows) except? -1
@cython.locals(items="int*", numbers="int*", slots="int*", count=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t, row=int)
cpdef Py_ssize_t take_ints(array.array source, array.array rows, array.array target) except? -1
@cython.locals(items="long long*", numbers="int*", slots="long long*", count=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t, row=int)
cpdef Py_ssize_t take_longs(array.array source, array.array rows, array.array target) except? -1
