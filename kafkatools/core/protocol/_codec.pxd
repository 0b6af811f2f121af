# The C types of _codec.py.
cimport cython
from libc.string cimport memcpy

cdef class Layout:
    cdef readonly object type
    cdef readonly tuple names
    cdef readonly bytes codes
    cdef readonly tuple layouts
    cdef readonly tuple defaults
    cdef readonly tuple tags
    cdef readonly Py_ssize_t plain
    cdef readonly bint is_flexible
    cdef readonly str text_errors
    cdef public object tag_defaults
    cdef readonly dict runs
    cdef readonly Py_ssize_t least

cdef const unsigned char* _items(const unsigned char[::1] data) noexcept
cdef short _int16(const unsigned char* data, Py_ssize_t position) noexcept
cdef int _int32(const unsigned char* data, Py_ssize_t position) noexcept
@cython.locals(number="unsigned long long", index=int)
cdef unsigned long long _unsigned(const unsigned char* data, Py_ssize_t position, int size) noexcept
cdef long long _signed_64(const unsigned char* data, Py_ssize_t position) noexcept
cdef signed char _signed_8(unsigned char byte) noexcept
cdef int _signed_32(unsigned int number) noexcept
cdef bytes _copied(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
cdef int _size_of(int kind) noexcept
cdef object _uuid_of(bytes data)
cdef const char* _start_of(bytes data) except NULL
cdef long long _as_number(object value) except? -1
cdef bint _is_in_range(long long number, int kind) noexcept
cdef void _put_number(unsigned char* data, Py_ssize_t position, unsigned long long number, int size) noexcept

cdef class Reader:
    cdef object source
    cdef const unsigned char[::1] view
    cdef const unsigned char* data
    cdef readonly Py_ssize_t end
    cdef public Py_ssize_t position
    cdef object pause
    cdef long long elements_left

    @cython.locals(values=list, index=Py_ssize_t)
    cpdef entity(self, Layout layout)
    @cython.locals(code=int, kind=int)
    cdef object _value(self, Layout layout, Py_ssize_t index)
    @cython.locals(size=int, position=Py_ssize_t)
    cdef object _fixed(self, int kind)
    cdef int _int8(self) except? -1
    @cython.locals(number="unsigned int", shift=int, position=Py_ssize_t, byte="unsigned int")
    cpdef int varint(self) except? -1
    @cython.locals(size=int)
    cdef Py_ssize_t _length(self, Layout layout, bint is_short) except? -9
    @cython.locals(length=Py_ssize_t, remaining=Py_ssize_t)
    cdef Py_ssize_t _checked_length(self, Layout layout, Py_ssize_t index, int kind, bint nullable) except? -9
    @cython.locals(length=Py_ssize_t, start=Py_ssize_t, data=bytes)
    cdef object _sized(self, Layout layout, Py_ssize_t index, int kind, bint nullable)
    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t _count(self, Layout layout, Py_ssize_t index, int kind, bint nullable) except? -9
    cpdef void note_elements(self, long long count) except *
    cdef Py_ssize_t _least(self, Layout layout, Py_ssize_t index, int kind) except? -9
    cdef Py_ssize_t _least_of(self, Layout layout) except? -9
    @cython.locals(count=Py_ssize_t, element=Py_ssize_t, values=list, nested=Layout)
    cdef object _array(self, Layout layout, Py_ssize_t index, int kind, bint nullable)
    @cython.locals(count=Py_ssize_t, tag=int, stop=Py_ssize_t, tagged=list, place=Py_ssize_t)
    cdef void _tags(self, Layout layout, list values) except *
    cdef object _tagged_value(self, Layout layout, Py_ssize_t index)
    @cython.locals(tag=int, size=Py_ssize_t)
    cdef tuple _tag(self)
    @cython.locals(size=Py_ssize_t, remaining=Py_ssize_t)
    cdef void _end_tag(self, Layout layout, int tag, Py_ssize_t stop) except *
    @cython.locals(index=Py_ssize_t, count=Py_ssize_t, tag=int, stop=Py_ssize_t, place=Py_ssize_t)
    cpdef void skip(self, Layout layout) except *
    @cython.locals(code=int, kind=int)
    cdef void _skip_value(self, Layout layout, Py_ssize_t index) except *
    cdef void _skip_bytes(self, Py_ssize_t size) except *
    @cython.locals(count=Py_ssize_t, element=Py_ssize_t)
    cdef void _skip_array(self, Layout layout, Py_ssize_t index, int kind, bint nullable) except *
    cdef void _cut_off(self) except *
    cdef void _refuse_null(self, Layout layout, Py_ssize_t index) except *
    cdef void _fail(self, str message) except *

cdef class Writer:
    cdef bytearray out
    cdef unsigned char* data
    cdef Py_ssize_t capacity
    cdef Py_ssize_t size
    cdef object pause

    cpdef bytes result(self)
    @cython.locals(index=Py_ssize_t, entity=tuple)
    cpdef void structure(self, Layout layout, object value) except *
    @cython.locals(code=int, kind=int)
    cdef void _value(self, Layout layout, Py_ssize_t index, object value) except *
    cdef void _room(self, Py_ssize_t count) except *
    cdef void _byte(self, unsigned char byte) except *
    @cython.locals(size=int, number="long long")
    cdef void _fixed(self, Layout layout, Py_ssize_t index, int kind, object value) except *
    @cython.locals(size=Py_ssize_t)
    cdef void _bytes(self, bytes data) except *
    cpdef void varint(self, unsigned int number) except *
    cdef void _length(self, Layout layout, Py_ssize_t size, bint is_short) except *
    @cython.locals(data=bytes)
    cdef void _sized(self, Layout layout, Py_ssize_t index, int kind, bint nullable, object value) except *
    cdef void _array(self, Layout layout, Py_ssize_t index, int kind, bint nullable, object values) except *
    @cython.locals(element=Py_ssize_t)
    cdef void _structures(self, Layout layout, object values) except *
    @cython.locals(writer=Writer)
    cdef void _shared(self, Layout layout, object values) except *
    @cython.locals(index=Py_ssize_t)
    cdef void _tags(self, Layout layout, object values) except *

@cython.locals(writer=Writer)
cdef bytes _tagged_bytes(Layout layout, Py_ssize_t index, object value, object pause)
