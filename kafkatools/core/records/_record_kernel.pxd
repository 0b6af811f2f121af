# The C types of _record_kernel.py.
cimport cython
from cpython cimport array
from kafkatools.core.records._kernel cimport _int_items, _long_items

cdef extern from *:
    """
    /* A tuple of a subclass, without the second tuple that tuple.__new__ copies. The fields are there before it is made,
       so no code runs while some are missing. */
    static PyObject *kt_new_record(
        PyObject *kind, PyObject *topic, PyObject *partition, PyObject *offset, PyObject *timestamp, PyObject *timestamp_type,
        PyObject *key, PyObject *value, PyObject *headers, PyObject *delivery_count)
    {
        PyObject *fields[9] = {topic, partition, offset, timestamp, timestamp_type, key, value, headers, delivery_count};
        PyObject *record = ((PyTypeObject *)kind)->tp_alloc((PyTypeObject *)kind, 9);
        Py_ssize_t place;
        if (record == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)record)->ob_hash = -1; /* not computed; tp_alloc leaves 0, which would be the hash */
    #endif
        for (place = 0; place < 9; place++) {
            Py_INCREF(fields[place]);
            PyTuple_SET_ITEM(record, place, fields[place]);
        }
        PyObject_GC_UnTrack(record); /* text, numbers, bytes and tuples of these cannot lead back to the record */
        return record;
    }
    """
    object new_record "kt_new_record" (
        object kind, object topic, object partition, object offset, object timestamp, object timestamp_type, object key, object value,
        object headers, object delivery_count
    )

cdef inline bytes cell_of(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t length):
    return (<const char*>&data[0])[position:position + length] if length else b""

@cython.locals(
    start=Py_ssize_t, stop=Py_ssize_t, row=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, position=Py_ssize_t,
    offset_items="long long*", timestamp_items="long long*", key_places="int*", key_sizes="int*", value_places="int*", value_sizes="int*",
    last_ms="long long", records=list,
)
cpdef list make_records(const unsigned char[::1] data, tuple longs, tuple places, headers, tuple rows, tuple constants)

cdef class HeldRecords:
    cdef public list records
    cdef public Py_ssize_t next_row

cdef class HeldIterator:
    cdef public HeldRecords held
