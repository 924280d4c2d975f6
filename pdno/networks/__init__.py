"""Networks that map functions to functions."""
