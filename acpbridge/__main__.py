"""`python -m acpbridge` and the console script `acpbridge`: both are the command line."""

from __future__ import annotations

from acpbridge.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
