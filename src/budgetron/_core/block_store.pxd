from libc.stdint cimport uint32_t


cdef class BlockStore:
    cdef readonly Py_ssize_t classes
    cdef readonly Py_ssize_t used  # bytes of all blocks
    cdef readonly Py_ssize_t held  # bytes of all pages and tables
    # For each size class: bytes of a block, blocks, blocks and bytes per page, pages
    cdef Py_ssize_t* sizes
    cdef Py_ssize_t* counts
    cdef uint32_t* per_page
    cdef Py_ssize_t* page_bytes
    cdef Py_ssize_t* n_pages
    cdef Py_ssize_t* page_rooms
    cdef char*** pages

    cdef inline char* block(self, Py_ssize_t size_class, Py_ssize_t i) noexcept nogil:
        """Return the address of block i of a size class. It changes when blocks are given back."""
        cdef uint32_t n = self.per_page[size_class], page = <uint32_t> i // n
        return self.pages[size_class][page] + (<uint32_t> i - page * n) * self.sizes[size_class]

    cdef Py_ssize_t take(self, Py_ssize_t size_class, uint32_t owner) except -1 nogil
    cdef Py_ssize_t give_back(self, Py_ssize_t size_class, Py_ssize_t i) noexcept nogil
