# The C types of _clean_kernel.py.
cimport cython
from cpython cimport array
from kafkatools.core.records._kernel cimport _as_long, _copy, _items, _long_items, _write_varint, _size_of, _skip, _skip_headers, _slots, _varint, _varlong

cdef unsigned long long _wrap(unsigned long long value) noexcept nogil
cdef unsigned long long _rotate(unsigned long long value, int bits) noexcept nogil
cdef unsigned long long _join(unsigned long long high, unsigned long long low) noexcept nogil
cdef unsigned long long _unsigned(long long value) noexcept nogil
@cython.locals(value="unsigned long long", byte="unsigned long long", i=Py_ssize_t)
cdef unsigned long long _word(const unsigned char* data, Py_ssize_t position, Py_ssize_t size) noexcept nogil
cdef (unsigned long long, unsigned long long, unsigned long long, unsigned long long) _round(unsigned long long v0, unsigned long long v1, unsigned long long v2, unsigned long long v3) noexcept nogil
@cython.locals(
    v0="unsigned long long", v1="unsigned long long", v2="unsigned long long", v3="unsigned long long", word="unsigned long long",
    position=Py_ssize_t, remaining=Py_ssize_t, length="unsigned long long", i=int, low="unsigned long long",
)
cdef (unsigned long long, unsigned long long) _sip_hash(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, unsigned long long k0, unsigned long long k1) noexcept nogil
cpdef (unsigned long long, unsigned long long) sip_hash(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size, unsigned long long k0, unsigned long long k1)

@cython.locals(index="unsigned long long", step="unsigned long long", tries="unsigned long long", slot=Py_ssize_t)
cdef Py_ssize_t _find(unsigned long long* slots, unsigned long long count, unsigned long long low, unsigned long long high) noexcept nogil
@cython.locals(low="unsigned long long", high="unsigned long long", slot=Py_ssize_t)
cdef bint _put_key(unsigned long long* slots, Py_ssize_t count, long long* state, const unsigned char* data, Py_ssize_t start, Py_ssize_t size, long long offset) noexcept nogil
@cython.locals(low="unsigned long long", high="unsigned long long", slot=Py_ssize_t)
cdef long long _newest_offset(unsigned long long* slots, Py_ssize_t count, long long* state, const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil
@cython.locals(size="long long")
cdef bint _ends_well(const unsigned char* data, Py_ssize_t position, Py_ssize_t stop) noexcept nogil
@cython.locals(row=Py_ssize_t, after=Py_ssize_t, size="long long", stop=Py_ssize_t, delta="long long", offset="long long")
cdef Py_ssize_t _put_keys(const unsigned char* source, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, long long base_offset, unsigned long long* slots, Py_ssize_t slot_count, long long* state) noexcept nogil
@cython.locals(source="const unsigned char*", end=Py_ssize_t, numbers="long long*", slots="unsigned long long*", slot_count=Py_ssize_t, row=Py_ssize_t)
cpdef Py_ssize_t put_keys(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t count, long long base_offset, unsigned long long[::1] table, array.array state) except? -1
@cython.locals(slot_count=Py_ssize_t, numbers="long long*", source="const unsigned char*")
cpdef bint put_key(const unsigned char[::1] key, long long offset, unsigned long long[::1] table, array.array state) except? 0
@cython.locals(slot_count=Py_ssize_t, numbers="long long*", source="const unsigned char*")
cpdef long long newest_offset(const unsigned char[::1] key, unsigned long long[::1] table, array.array state) except? -1
cdef unsigned long long* _words(unsigned long long[::1] table) noexcept

@cython.locals(
    row=Py_ssize_t, after=Py_ssize_t, size="long long", stop=Py_ssize_t, timestamp="long long", delta="long long", key_size="long long",
    key=Py_ssize_t, value_size="long long", offset="long long", is_retained=int,
)
cdef Py_ssize_t _mark_retained(
    const unsigned char* source, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, long long base_offset, long long base_timestamp,
    unsigned long long* slots, Py_ssize_t slot_count, long long* state, unsigned char* flags, long long* counts
) noexcept nogil
@cython.locals(
    count=Py_ssize_t, source="const unsigned char*", end=Py_ssize_t, base_state="long long*", sums="long long*", slots="unsigned long long*",
    slot_count=Py_ssize_t, flags="unsigned char*", i=int, row=Py_ssize_t,
)
cpdef Py_ssize_t mark_retained(
    const unsigned char[::1] data, Py_ssize_t position, long long base_offset, long long base_timestamp, unsigned long long[::1] table,
    array.array state, unsigned char[::1] retained, array.array counts
) except? -1

@cython.locals(row=Py_ssize_t, after=Py_ssize_t, written=Py_ssize_t, size="long long", stop=Py_ssize_t, timestamp="long long", rest=Py_ssize_t, body="long long")
cdef Py_ssize_t _copy_retained(const unsigned char* source, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, unsigned char* flags, long long shift, unsigned char* target, Py_ssize_t room) noexcept nogil
@cython.locals(count=Py_ssize_t, source="const unsigned char*", flags="unsigned char*", out="unsigned char*", end=Py_ssize_t, room=Py_ssize_t, written=Py_ssize_t)
cpdef Py_ssize_t copy_retained(const unsigned char[::1] data, Py_ssize_t position, unsigned char[::1] retained, long long shift, unsigned char[::1] target) except? -2
