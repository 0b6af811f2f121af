# The C types of _format_kernel.py. Pointers carry no length: a function that takes one also takes its end.
cimport cython
from cpython cimport array
from kafkatools.core.records._kernel cimport _copy, _int_items, _is_inside, _items, _long_items
from kafkatools.core.records._kernel_text cimport _resize, _writable

@cython.locals(
    value_sizes="int*", key_sizes="int*", count=Py_ssize_t, fixed=Py_ssize_t, value_count=Py_ssize_t, key_count=Py_ssize_t,
    part=Py_ssize_t, need=Py_ssize_t, row=Py_ssize_t,
)
cdef (Py_ssize_t, Py_ssize_t) _room(object columns, int* items, Py_ssize_t width, int* values, int* keys, Py_ssize_t end) except *
@cython.locals(
    width=Py_ssize_t, source="const unsigned char*", text="const unsigned char*", items="int*", values="int*", value_sizes="int*",
    keys="int*", key_sizes="int*", offsets="long long*", timestamps="long long*", count=Py_ssize_t, need=Py_ssize_t,
    position=Py_ssize_t, slots="unsigned char*", row=Py_ssize_t, part=Py_ssize_t, kind=int,
)
cpdef Py_ssize_t write_parts(object columns, bytearray out, array.array parts, bytes literals) except? -1
cdef Py_ssize_t _put(unsigned char* slots, Py_ssize_t position, const unsigned char* source, Py_ssize_t start, Py_ssize_t length) noexcept nogil
cdef Py_ssize_t _big_endian(unsigned char* slots, Py_ssize_t position, int value) noexcept nogil
@cython.locals(rest="unsigned long long", limit="unsigned long long", size=int, at=Py_ssize_t)
cdef Py_ssize_t _number(unsigned char* slots, Py_ssize_t position, long long value) noexcept nogil
