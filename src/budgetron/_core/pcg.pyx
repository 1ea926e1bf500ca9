# cython: cdivision=True
"""The random numbers of NumPy's PCG64, with a state that can be exchanged in a few instructions.

Each key of a fleet has its own generator, and a generator of NumPy is a Python object of 200 bytes. Here a state is 40
bytes, of which 16 are the same for all keys.
"""

from libc.stdint cimport uint32_t, uint64_t

cdef uint64_t FACTOR_HIGH = 2549297995355413924ULL, FACTOR_LOW = 4865540595714422341ULL


cdef inline uint64_t high_product(uint64_t a, uint64_t b) noexcept nogil:
    """Return the upper 64 bits of a b."""
    cdef uint64_t a0 = a & 0xFFFFFFFFULL, a1 = a >> 32, b0 = b & 0xFFFFFFFFULL, b1 = b >> 32
    cdef uint64_t middle = a1 * b0 + ((a0 * b0) >> 32)
    cdef uint64_t other = a0 * b1 + (middle & 0xFFFFFFFFULL)
    return a1 * b1 + (middle >> 32) + (other >> 32)


cdef uint64_t next64(void* place) noexcept nogil:
    cdef Pcg* state = <Pcg*> place
    cdef uint64_t high, low, mixed, turn
    high = high_product(state.low, FACTOR_LOW) + state.high * FACTOR_LOW + state.low * FACTOR_HIGH
    low = state.low * FACTOR_LOW
    state.low = low + state.step_low
    state.high = high + state.step_high + (state.low < low)
    mixed, turn = state.high ^ state.low, state.high >> 58
    return (mixed >> turn) | (mixed << ((-turn) & 63))


cdef uint32_t next32(void* place) noexcept nogil:
    cdef Pcg* state = <Pcg*> place
    cdef uint64_t both
    if state.has_spare:
        state.has_spare = 0
        return state.spare
    both = next64(place)
    state.has_spare, state.spare = 1, <uint32_t> (both >> 32)
    return <uint32_t> both


cdef double next_double(void* place) noexcept nogil:
    return (next64(place) >> 11) * (1.0 / 9007199254740992.0)


cdef void connect(bitgen_t* bits, Pcg* state) noexcept:
    """Let a generator use this state."""
    bits.state, bits.next_uint64, bits.next_uint32, bits.next_double, bits.next_raw = (
        state, next64, next32, next_double, next64)


cdef int read_state(Pcg* state, generator) except -1:
    """Copy the state of a generator of NumPy."""
    found = generator.bit_generator.state
    if found["bit_generator"] != "PCG64":
        raise ValueError(f"the generator should be a PCG64; it is a {found['bit_generator']}")
    number, step = found["state"]["state"], found["state"]["inc"]
    state.high, state.low = number >> 64, number & 0xFFFFFFFFFFFFFFFF
    state.step_high, state.step_low = step >> 64, step & 0xFFFFFFFFFFFFFFFF
    state.spare, state.has_spare = found["uinteger"], found["has_uint32"]
    return 0


cdef write_state(Pcg* state, generator):
    """Give a generator of NumPy this state."""
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": (<object> state.high << 64) | state.low,
                  "inc": (<object> state.step_high << 64) | state.step_low},
        "has_uint32": state.has_spare,
        "uinteger": state.spare,
    }
