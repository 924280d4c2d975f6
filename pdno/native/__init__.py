"""Inner loops in C: shipped in the wheel, or compiled on the user's machine at first use.

Without them, or with PDNO_NATIVE=0, the same numbers come from torch alone, more slowly. Nothing
else of the package depends on this; docs/native.md is for users.

    build      finds the library of this machine: shipped, kept from before, or compiled now
    cache      the folder of the user where compiled libraries are kept, and who may write to it
    compiler   the C compiler and one compilation; needs the standard library alone
"""
