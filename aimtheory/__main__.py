"""``python -m aimtheory`` is the command line."""

import sys

from aimtheory.cli import main

if __name__ == "__main__":
    sys.exit(main())
