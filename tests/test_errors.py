"""The faults that end the bridge: their exit codes are a promise to whoever started it."""

from __future__ import annotations

import pytest

from acpbridge.errors import AcpBridgeError, AgentFault, DaemonFault, StateDirFault, UsageFault


@pytest.mark.parametrize(
    ("fault", "exit_code"), [(UsageFault, 2), (AgentFault, 3), (StateDirFault, 4), (DaemonFault, 5)]
)
def test_each_fault_has_its_exit_code(fault: type[AcpBridgeError], exit_code: int) -> None:
    assert exit_code == fault("some_code", "a hint").exit_code


def test_a_fault_is_one_line_that_names_the_remedy_first() -> None:
    fault = AgentFault("agent_missing", "hermes is not on PATH: install it, or name it in full")

    assert "hermes is not on PATH: install it, or name it in full (agent_missing)" == str(fault)
    assert ("agent_missing", 3) == (fault.code, fault.exit_code)
