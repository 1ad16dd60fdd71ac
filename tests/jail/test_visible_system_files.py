"""The parts of a machine's system that are visible in a jail."""

from pathlib import Path

from hutch.jail.launch.visible_system_files import System, read_system


def test_a_merged_system_is_exposed_by_links_and_etc_file_by_file(tmp_path: Path) -> None:
    for name in ("usr/bin/python3", "etc/ssl/certs/ca.pem", "etc/shadow", "etc/services", "proc/keys"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib64").mkdir()
    (tmp_path / "etc/localtime").symlink_to("/usr/share/zoneinfo/UTC")
    assert read_system(tmp_path) == System(
        directories=("/usr", "/lib64"),
        links=(("/bin", "usr/bin"),),
        etc=("/etc/services", "/etc/ssl/certs"),
        etc_links=(("/etc/localtime", "/usr/share/zoneinfo/UTC"),),
        masked=("/proc/keys",),
        python="/usr/bin/python3",
    )
