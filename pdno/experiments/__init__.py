"""What the package can do, as runs that start from nothing."""
