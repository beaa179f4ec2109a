"""How late a busy machine may be; how quick an idle one is, the benchmark says."""

from __future__ import annotations

LATE_S = 5.0
"""What should happen at once, or after a wait of known length, may come this much later, and must
not come later still. Waits that would be the fault are set to be longer."""
