"""What holds for every probe, those to come included."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui import checks
from spectui.checks import NEEDS, Finding, Probe, Subject

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("probe", checks.catalogue(), ids=lambda probe: probe.name)
def test_every_probe_declares_what_a_person_needs(probe: Probe) -> None:
    assert probe.error is None
    assert probe.title.endswith("?")
    assert probe.why.endswith(".")
    assert set(probe.needs) <= set(NEEDS)


@pytest.mark.parametrize("probe", checks.catalogue(), ids=lambda probe: probe.name)
def test_every_probe_says_why_it_cannot_run_when_nothing_is_known(probe: Probe) -> None:
    finding = checks.run_probe(probe, Subject("http://127.0.0.1:1"))
    if probe.name == "serving":
        assert finding.ok is False
        return
    assert finding.ok is None
    assert finding.detail.startswith("not checked: ")
    assert "failed:" not in finding.detail, "it ran into a fault instead of saying what it lacks"


def test_a_broken_file_is_a_disabled_row_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "more_checks"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "broken.py").write_text("raise OSError('no such thing')\n")
    (package / "misnamed.py").write_text(
        "from spectui.checks import Finding, Probe\n"
        "PROBE = Probe('other', 'Is it?', 'Why.', lambda subject: Finding(True))\n"
    )
    (package / "raising.py").write_text(
        "from spectui.checks import Probe\n"
        "PROBE = Probe('raising', 'Is it?', 'Why.', lambda subject: 1 / 0, needs=())\n"
    )
    (package / "good.py").write_text(
        "from spectui.checks import Finding, Probe\n"
        "PROBE = Probe('good', 'Is it?', 'Why.', lambda subject: Finding(True, 'yes'), needs=())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    about = Subject("http://x")
    found = {probe.name: finding for probe, finding in checks.probe_all(about, package="more_checks")}
    assert set(found) == {"broken", "good", "misnamed", "raising"}
    assert found["good"] == Finding(True, "yes")
    assert found["broken"].ok is None
    assert "no such thing" in found["broken"].detail
    assert "same name" in found["misnamed"].detail
    assert "ZeroDivisionError" in found["raising"].detail


def test_the_page_is_current() -> None:
    page = (ROOT / "docs" / "checks.md").read_text("utf-8")
    assert page == checks.markdown(), "write it anew: python -m spectui.checks > docs/checks.md"
