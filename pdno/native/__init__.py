"""Inner loops in C: shipped in the wheel, or compiled on the user's machine at first use.

Without them, or with PDNO_NATIVE=0, the same numbers come from torch alone, more slowly. Nothing
else of the package depends on this. `pdno.native.build` finds or makes the library, with
`compiler`, `cache` and `shipped` for its three places; docs/native.md is for users.
"""
