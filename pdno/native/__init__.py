"""Inner loops in C: shipped in the wheel, or compiled on the user's machine at first use.

Without them, or with PDNO_NATIVE=0, the same numbers come from torch alone, more slowly.

    build      finds the library of this machine: shipped, kept in a cache folder, or compiled now
    compiler   the C compiler and one compilation; needs the standard library alone
"""
