from __future__ import annotations

from acpbridge.shell.metrics import Family, page


def test_the_page_is_prometheus_text() -> None:
    found = page(
        [
            Family("clients", "Clients right now.", {"": 3}),
            Family("notes_total", "Events.", {"b": 2.5, 'a"\\\n': 1e15}, "of"),
            Family("empty_total", "None yet.", {}, "of"),
        ]
    )

    assert (
        "# HELP acpbridge_clients Clients right now.\n"
        "# TYPE acpbridge_clients gauge\n"
        "acpbridge_clients 3\n"
        "# HELP acpbridge_notes_total Events.\n"
        "# TYPE acpbridge_notes_total counter\n"
        'acpbridge_notes_total{of="a\\"\\\\\\n"} 1000000000000000\n'
        'acpbridge_notes_total{of="b"} 2.5\n'
        "# HELP acpbridge_empty_total None yet.\n"
        "# TYPE acpbridge_empty_total counter\n"
    ) == found
