"""`bertedu data list | fetch | show`, on a tiny registry and from a folder: pip is not run here."""

import hashlib
import re
import zipfile
from pathlib import Path

import pytest
from called import one_line_error, printed_by, run

CONTENT = {"a/bytes.bin": bytes(range(256)) * 500, "a/empty.bin": bytes(5000), "a/poem.txt": b"sea"}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the wheels of sources `core` (default) and `extra`; BERTEDU_DATA is set."""
    house, data = tmp_path / "house", tmp_path / "data"
    house.mkdir()
    data.mkdir()
    text = ""
    for name, default in (("core", "true"), ("extra", "false")):
        wheel = house / f"{name}-1.0.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in CONTENT.items():
                archive.writestr(member, content + name.encode())
        text += (
            f'[wheels.{name}-data]\nversion = "1.0"\nfile = "{wheel.name}"\n'
            f'sha256 = "{hashlib.sha256(wheel.read_bytes()).hexdigest()}"\n'
            f"size_bytes = {wheel.stat().st_size}\n"
            f'[sources.{name}]\nwheel = "{name}-data"\nmembers = ["a/*"]\ndefault = {default}\n'
            f'language = "ko"\nlicense = "free {name}"\ncitation = "cite {name}"\n'
            f'description = "what {name} is"\n'
        )
    (data / "sources.toml").write_text(text)
    monkeypatch.setenv("BERTEDU_DATA", str(data))
    return house


def test_fetch_list_and_show_tell_what_is_there(house: Path) -> None:
    downloads = house.parent / "data" / "downloads"
    before = run("data", "show", "core").stdout
    assert re.match(r"core\n.* what core is\n.* ko\n(.*\n)* +sha256 +[0-9a-f]{64}\n", before)
    for word in ("core-data==1.0", "free core", "cite core", "bertedu data fetch core", "a/*"):
        assert word in before
    assert run("data", "fetch", "--from", house).exit_code == 0  # without names it takes the core
    assert [path.name for path in downloads.iterdir()] == ["core-1.0.whl"]
    core, extra = run("data", "list", COLUMNS="300").stdout.splitlines()
    assert re.fullmatch(r"\* core .* fetched .*what core is", core)
    assert re.fullmatch(r"  extra .* - .*what extra is", extra)
    narrow = run("data", "list", COLUMNS=f"{len(core)}").stdout.splitlines()
    assert narrow == [core, f"{extra[: len(core) - 1]}…"]
    assert run("data", "fetch", "extra", "--from", house).exit_code == 0
    assert (downloads / "extra-1.0.whl").is_file()
    shown = run("data", "show", "core").stdout
    assert "state     fetched, hash verified" in shown
    wheel = downloads / "core-1.0.whl"
    assert f"wheel     {wheel} ({wheel.stat().st_size / 1e3:.1f} kB)" in shown
    size = sum(len(content) + len("core") for content in CONTENT.values())
    assert f"members   3 ({size / 1e6:.1f} MB)" in shown
    wheel.write_bytes(wheel.read_bytes()[:100])
    assert re.search("unusable.*100 bytes of", run("data", "show", "core").stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch", "core", "extre"], "Did you mean extra?"),
        (["show", "extre"], "Did you mean extra?"),
        (["fetch", "core", "--from", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_an_error_is_one_plain_message(house: Path, words: list[str], message: str) -> None:
    result = run("data", *words)
    assert message in one_line_error(result)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert not list((house.parent / "data").glob("downloads/*"))  # `core` was not fetched first


def test_the_module_runs_and_help_does_not_load_torch() -> None:
    code = (
        "import runpy, sys\nsys.argv = ['bertedu', 'data', '--help']\n"
        "try: runpy.run_module('bertedu', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules, 'torch'"
    )
    assert "Usage: bertedu data" in printed_by("-c", code)
