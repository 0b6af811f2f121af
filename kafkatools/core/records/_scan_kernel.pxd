# The C types of _scan_kernel.py.
cimport cython
from cpython cimport array
from kafkatools.core.records._kernel cimport _as_int, _as_unsigned_int, _items, _long_items

cdef int _get_int(const unsigned char* data, Py_ssize_t position) noexcept nogil
@cython.locals(high="long long")
cdef long long _get_long(const unsigned char* data, Py_ssize_t position) noexcept nogil
cdef int _get_short(const unsigned char* data, Py_ssize_t position) noexcept nogil
@cython.locals(value=int)
cdef int _get_magic(const unsigned char* data, Py_ssize_t position) noexcept nogil
@cython.locals(source="const unsigned char*", items="long long*", width=Py_ssize_t, room=Py_ssize_t, position=Py_ssize_t, row=Py_ssize_t, size=Py_ssize_t, smallest=int, up_to_magic=int)
cpdef Py_ssize_t scan_batches(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, array.array table, array.array status) except? -1
@cython.locals(magic=int, column=int)
cdef void _read_header(const unsigned char* data, Py_ssize_t position, Py_ssize_t size, long long* items, Py_ssize_t slot) noexcept nogil
