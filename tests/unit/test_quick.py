"""Which tests a change of a room is tried with first."""

from tests.quick import choose_tests, file_seconds, module_names

SOURCES = {
    "tests/unit/test_prices.py": "from runners.cost.prices import Price\ndef test_a(): ...\n",
    "tests/unit/test_meter.py": "from runners.cost import prices\ndef test_a(): ...\n",
    "tests/unit/test_ledger.py": "from runners.cost.ledger import Ledger\ndef test_a(): ...\n",
    "tests/unit/test_costly.py": "from runners.costly import thing\ndef test_a(): ...\n",
    "tests/process/test_money.py": "import runners.cost.ledger\ndef test_a(): ...\n",
}
SECONDS = {"tests/unit/test_prices.py": 5.0, "tests/process/test_money.py::test_a": 50.0}


def test_what_names_the_module_comes_first_then_its_room() -> None:
    chosen, left_out = choose_tests(["runners/cost/prices.py"], SOURCES, SECONDS, 90.0)
    assert chosen == [
        "tests/unit/test_meter.py",
        "tests/unit/test_prices.py",
        "tests/unit/test_ledger.py",
        "tests/process/test_money.py",
    ]
    assert not left_out


def test_what_takes_too_long_is_left_out_unless_it_was_changed_itself() -> None:
    chosen, left_out = choose_tests(["runners/cost"], SOURCES, SECONDS, 20.0)
    assert left_out == ["tests/process/test_money.py"]
    assert "tests/unit/test_costly.py" not in chosen and len(chosen) == 3
    changed = ["tests/process/test_money.py", "README.md"]
    assert choose_tests(changed, SOURCES, SECONDS, 20.0) == ([changed[0]], [])


def test_files_are_modules_of_rooms() -> None:
    assert module_names(["tui/panel/app.py", "docs/a.py", "runners/cost/__init__.py"]) == (
        {"tui.panel.app", "runners.cost"},
        {"tui.panel"},
    )


def test_a_file_takes_what_was_recorded_of_its_tests() -> None:
    text = "def test_a(): ...\nasync def test_b(): ...\n"
    assert file_seconds("tests/process/test_money.py", text, SECONDS) == 50.3
