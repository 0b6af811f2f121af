# The C types of _arrow_kernel.py. Pointers carry no length: a function that takes one also takes its end.
cimport cython
from cpython cimport array
from kafkatools.core.records._kernel cimport _copy, _int_items, _items, _long_items, _slots

@cython.locals(items="int*", count=Py_ssize_t, total="long long", row=Py_ssize_t)
cpdef long long cells_size(array.array lengths) except? -1
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, starts="int*", sizes="int*", ends="int*", out="unsigned char*", bits="unsigned char*", numbers="long long*",
    rows=Py_ssize_t, size=Py_ssize_t, nulls="long long", count=Py_ssize_t, room=Py_ssize_t, row=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t,
)
cpdef Py_ssize_t copy_cells(
    const unsigned char[::1] data, array.array positions, array.array lengths, array.array offsets, unsigned char[::1] target, unsigned char[::1] validity,
    array.array state
) except? -1
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, starts="int*", sizes="int*", out="unsigned char*", bits="unsigned char*", numbers="long long*",
    rows=Py_ssize_t, size=Py_ssize_t, nulls="long long", count=Py_ssize_t, row=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t, slot=Py_ssize_t,
)
cpdef Py_ssize_t view_cells(
    const unsigned char[::1] data, array.array positions, array.array lengths, Py_ssize_t buffer_number, unsigned char[::1] views,
    unsigned char[::1] validity, array.array state
) except? -1
cdef void _put_int(unsigned char* target, Py_ssize_t position, Py_ssize_t value) noexcept nogil
@cython.locals(
    ends="int*", starts="int*", sizes="int*", bits="const unsigned char*", bit_count=Py_ssize_t, count=Py_ssize_t, row=Py_ssize_t, length=Py_ssize_t,
)
cpdef Py_ssize_t cell_places(
    array.array offsets, const unsigned char[::1] validity, Py_ssize_t first_bit, Py_ssize_t shift, array.array positions, array.array lengths
) except? -1
@cython.locals(
    items="int*", places="int*", rows="int*", count=Py_ssize_t, width=Py_ssize_t, row=Py_ssize_t, slot=Py_ssize_t, total=Py_ssize_t, number_count=Py_ssize_t,
)
cpdef Py_ssize_t rows_by_number(array.array numbers, array.array ends, array.array order) except? -1
@cython.locals(items="int*", count=Py_ssize_t, row=Py_ssize_t)
cpdef shift_numbers(array.array numbers, int by)
