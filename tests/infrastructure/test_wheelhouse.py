"""What is locked, and what set-up does with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from local import wheelhouse
from local.wheelhouse import AWS, LAMBDA_PYTHON, LOCAL, House, WheelhouseError, fill
from stacks.constructs.python_function import RUNTIME_PYTHON
from tests.infrastructure.stages import ROOT

LOCKS = sorted(ROOT.glob("lambdas/*/requirements.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.parent.name)
def test_every_pin_of_a_function_is_exact_and_hashed_and_names_no_index(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^#.*\n", "", lock.read_text()).strip())
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==[0-9][^\s;]* ", entry), entry
        assert "--hash=sha256:" in entry, entry
    assert "http" not in lock.read_text()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.parent.name)
def test_the_runtimes_own_boto3_is_not_shipped_a_second_time(lock: Path) -> None:
    assert not re.search(r"(?m)^(boto3|botocore|s3transfer)==", lock.read_text())


def test_the_lock_holds_what_the_function_asks_for() -> None:
    for lock in LOCKS:
        asked = re.findall(r"(?m)^([a-z0-9-]+==\S+)$", lock.with_suffix(".in").read_text())
        assert asked
        assert set(asked) <= set(re.findall(r"(?m)^([a-z0-9-]+==\S+) ", lock.read_text()))


def test_both_arm_tags_are_asked_for_because_one_alone_finds_old_releases() -> None:
    asked = " ".join(AWS.pip)
    assert "--platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64" in asked
    assert RUNTIME_PYTHON == LAMBDA_PYTHON == AWS.python


def test_a_full_house_is_left_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(wheelhouse, "_download", _no_download)
    with pytest.raises(ConnectionError):
        fill(LOCAL, _project(tmp_path))
    _a_house(tmp_path, LOCAL)
    assert fill(LOCAL, tmp_path) is False


@pytest.mark.parametrize("change", ["lock", "python", "pip", "machine"])
def test_a_house_is_filled_again_when_what_it_is_for_changes(tmp_path, monkeypatch, change) -> None:
    monkeypatch.setattr(wheelhouse, "_download", _no_download)
    _project(tmp_path)
    _a_house(tmp_path, AWS)
    house = AWS
    match change:
        case "lock":
            (tmp_path / "lambdas/api/requirements.txt").write_text("# another\n")
        case "python":
            house = House(AWS.name, "3.15", AWS.pip)
        case "pip":
            house = House(AWS.name, AWS.python, ())
        case "machine":
            house = House(AWS.name, AWS.python, AWS.pip, machine="other")
    with pytest.raises(ConnectionError):
        fill(house, tmp_path)
    assert (tmp_path / ".build/wheelhouse/aws/stamp.json").is_file()  # what was there stays until a new one is whole


def test_a_download_that_fails_leaves_the_old_house_and_says_what_to_do(tmp_path) -> None:
    _project(tmp_path)
    _a_house(tmp_path, AWS)
    (tmp_path / "lambdas/api/requirements.txt").write_text("holdfast-no-such-package @ file:///nowhere.whl\n")
    with pytest.raises(WheelhouseError, match=r"wheelhouse aws: pip could not fetch.*make setup"):
        fill(AWS, tmp_path)
    assert (tmp_path / ".build/wheelhouse/aws/stamp.json").is_file()


def _project(root: Path) -> Path:
    for lock in LOCKS:
        (root / lock.relative_to(ROOT)).parent.mkdir(parents=True)
        shutil.copy(lock, root / lock.relative_to(ROOT))
    return root


def _a_house(root: Path, house: House) -> None:
    place = root / ".build" / "wheelhouse" / house.name
    shutil.copytree(ROOT / ".build" / "wheelhouse" / house.name, place)


def _no_download(*_: object) -> None:
    raise ConnectionError("no network in this test")
