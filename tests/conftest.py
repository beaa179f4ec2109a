"""What every test shares: how hard Hypothesis looks, a state directory, an ear for SIGHUP.

`ci`, the default, draws the same examples on every run, so that a red run is red again; `glance`
(HYPOTHESIS_PROFILE=glance) draws a few, where coverage is measured; `deep` draws new ones, many
more, by hand or at night.
"""

from __future__ import annotations

import os
import signal
import tempfile

from hypothesis import HealthCheck, settings

# A loaded machine is slow and no bug: no example has a deadline, and generation may take its time.
_BASE = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _BASE, max_examples=300, derandomize=True)
settings.register_profile("glance", _BASE, max_examples=25, derandomize=True)
settings.register_profile("deep", _BASE, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Bridges that tests start keep their journal here, never where the user's own one is. Each worker
# of pytest-xdist has one in the first process's: a bridge takes over what it finds left behind.
_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_STATE_DIR = tempfile.TemporaryDirectory(
    prefix="acpbridge-state-", dir=os.environ["ACPBRIDGE_STATE_DIR"] if _IS_WORKER else None
)
os.environ["ACPBRIDGE_STATE_DIR"] = _STATE_DIR.name

# A suite that nohup started would ignore it, with every process that it starts.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
