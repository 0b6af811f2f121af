"""`make crash`: a disk that may lose power, a course of a whole broker on it, and what must be there after."""
