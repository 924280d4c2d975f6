"""Tables and figures; the only package that imports matplotlib."""
