"""The ways to compare two sources of records, and the names of their differences."""

BY_KEY, BY_OFFSET, AS_MULTISET = "key", "offset", "multiset"
WAYS = (BY_KEY, BY_OFFSET, AS_MULTISET)
ONLY_LEFT, ONLY_RIGHT, CHANGED = "only-left", "only-right", "changed"
