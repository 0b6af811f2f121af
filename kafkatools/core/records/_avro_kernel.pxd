# The C types of _avro_kernel.py.
cimport cython
from cpython cimport array
from libc.string cimport memcpy
from kafkatools.core.records._kernel cimport _as_unsigned_long, _copy, _int_items, _items, _long_items, _long_varlong, _slots

@cython.locals(byte=int)
cdef (long long, Py_ssize_t) _number(const unsigned char* source, Py_ssize_t place, Py_ssize_t end) noexcept
@cython.locals(number="unsigned long long", rest="unsigned long long", size=Py_ssize_t, place=Py_ssize_t)
cdef Py_ssize_t _put_long(unsigned char* slots, Py_ssize_t position, long long value) noexcept
@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_digits(unsigned char* slots, Py_ssize_t position, long long value, int width) noexcept
@cython.locals(size=Py_ssize_t)
cdef int _put_bytes(unsigned char* slots, long long* state, bytes text) except? -9
cdef int _hex_digit(int value) noexcept
@cython.locals(out=Py_ssize_t, stop=Py_ssize_t, place=Py_ssize_t, byte=int, length=int)
cdef int _put_string(const unsigned char* source, Py_ssize_t start, Py_ssize_t size, unsigned char* slots, long long* state) noexcept
@cython.locals(byte=int, size=int, low=int, high=int)
cdef int _character_size(const unsigned char* source, Py_ssize_t place, Py_ssize_t stop) noexcept
cdef int _base64_digit(int value) noexcept
@cython.locals(done=int, out=Py_ssize_t, place=Py_ssize_t, stop=Py_ssize_t, left=Py_ssize_t, bits=int)
cdef int _put_binary(const unsigned char* source, Py_ssize_t start, Py_ssize_t size, unsigned char* slots, long long* state) except? -9
@cython.locals(
    shifted="long long", era="long long", day_of_era="long long", year_of_era="long long", day_of_year="long long", shifted_month="long long",
    month="long long", year="long long",
)
cdef Py_ssize_t _put_date(unsigned char* slots, Py_ssize_t position, long long days) noexcept
cdef Py_ssize_t _put_time(unsigned char* slots, Py_ssize_t position, long long seconds, long long fraction, int digits) noexcept
@cython.locals(unit="long long", seconds="long long", fraction="long long", days="long long")
cdef Py_ssize_t _put_moment(unsigned char* slots, Py_ssize_t out, long long value, int digits, int kind) noexcept
@cython.locals(value="long long", place=Py_ssize_t, out=Py_ssize_t, number="unsigned long long", unit="unsigned long long", whole="unsigned long long")
cdef int _put_decimal(const unsigned char* source, Py_ssize_t start, Py_ssize_t size, int scale, unsigned char* slots, long long* state) except? -9
@cython.locals(value=double, single=float)
cdef int _put_fraction(const unsigned char* source, Py_ssize_t place, bint is_double, unsigned char* slots, long long* state) except? -9
cdef int _put_duration(const unsigned char* source, Py_ssize_t place, unsigned char* slots, long long* state) except? -9
@cython.locals(op=int, end=Py_ssize_t, index="long long", size="long long", done=int)
cdef Py_ssize_t _value(const unsigned char* source, Py_ssize_t place, int* code, Py_ssize_t at, const unsigned char* texts, unsigned char* slots, long long* state) except? -9
@cython.locals(end=Py_ssize_t, index="long long")
cdef Py_ssize_t _word(const unsigned char* source, Py_ssize_t place, int* code, Py_ssize_t at, const unsigned char* texts, unsigned char* slots, long long* state) except? -9
@cython.locals(size=Py_ssize_t)
cdef int _text(int* code, Py_ssize_t at, const unsigned char* texts, unsigned char* slots, long long* state) noexcept
@cython.locals(op=int, end=Py_ssize_t, size="long long", kind=int, done=int)
cdef Py_ssize_t _logical(const unsigned char* source, Py_ssize_t place, int* code, Py_ssize_t at, unsigned char* slots, long long* state) except? -9
@cython.locals(count=int)
cdef Py_ssize_t _record(const unsigned char* source, Py_ssize_t place, int* code, Py_ssize_t at, const unsigned char* texts, unsigned char* slots, long long* state) except? -9
@cython.locals(is_map=bint, first="long long", count="long long")
cdef Py_ssize_t _items_of(const unsigned char* source, Py_ssize_t place, int* code, Py_ssize_t at, const unsigned char* texts, unsigned char* slots, long long* state) except? -9
@cython.locals(count="long long", size="long long")
cdef (long long, Py_ssize_t) _block(const unsigned char* source, Py_ssize_t place, Py_ssize_t end) noexcept
@cython.locals(end=Py_ssize_t, size="long long", done=int)
cdef Py_ssize_t _name(const unsigned char* source, Py_ssize_t place, unsigned char* slots, long long* state) noexcept
@cython.locals(
    source="const unsigned char*", end=Py_ssize_t, positions="int*", lengths="int*", new_positions="int*", new_lengths="int*", code="int*",
    names="const unsigned char*", state="long long*", slots="unsigned char*", row=Py_ssize_t, stop=Py_ssize_t, place=Py_ssize_t, length=Py_ssize_t,
    start="long long", number="unsigned int", after=Py_ssize_t,
)
cpdef Py_ssize_t write_rows(const unsigned char[::1] data, tuple cells, tuple program, unsigned int schema_id, unsigned char[::1] out, tuple texts, array.array state_array) except? -9
