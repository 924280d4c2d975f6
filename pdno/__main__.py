"""`python -m pdno` is the command line."""

import sys

from pdno.cli import main

if __name__ == "__main__":
    sys.exit(main())
