"""Files: written whole or not at all, verified on reading, within limits of memory and time."""
