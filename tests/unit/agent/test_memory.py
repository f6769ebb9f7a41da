"""The memory that a process uses and its container allows, by the kernel's files, and the bounds set by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from samerack.agent.supervisor.memory import Limit, anonymous_bytes, limits, overgrown, resident_bytes

MIB: Final = 1 << 20
V2: Final = ("memory.max", "memory.current", "inactive_file")
V1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_a_process_holds_what_the_kernel_says() -> None:
    """The memory of this process is read with and without its id; a process that does not exist has none."""
    before, own = resident_bytes(), anonymous_bytes()
    taken = bytearray(os.urandom(1)) * 50_000_000
    assert resident_bytes() > before + 40_000_000
    assert resident_bytes(os.getpid()) > len(taken)
    assert anonymous_bytes() > own + 40_000_000
    assert resident_bytes(2**22 + 1) == anonymous_bytes(2**22 + 1) == 0


def proc_of(root: Path, text: str) -> Path:
    """The kernel's file on the control groups of a process."""
    file = root / "proc" / "self" / "cgroup"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return root


def group(folder: Path, names: tuple[str, str, str], limit: object, used: int = 0, cache: int = 0) -> None:
    """A control group with its figures."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n", encoding="ascii")
    (folder / names[1]).write_text(f"{used}\n", encoding="ascii")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cache}\nunevictable 0\n", encoding="ascii")


@pytest.mark.parametrize(
    ("proc", "folder", "names"),
    [
        ("0::/\n", "sys/fs/cgroup", V2),
        ("12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/docker/abc\n", "sys/fs/cgroup/memory", V1),
    ],
    ids=["version 2, which sees itself as the root", "version 1, with the host's path, which does not exist inside"],
)
def test_a_container(tmp_path: Path, proc: str, folder: str, names: tuple[str, str, str]) -> None:
    """Page cache that can be dropped does not count as used."""
    group(proc_of(tmp_path, proc) / folder, names, 384 * MIB, used=300 * MIB, cache=100 * MIB)
    assert limits(tmp_path) == (Limit(limit_bytes=384 * MIB, used_bytes=200 * MIB),)
    assert limits(tmp_path)[0].left_bytes == 184 * MIB


@pytest.mark.parametrize("names", [V1, V2])
def test_groups_in_groups(tmp_path: Path, names: tuple[str, str, str]) -> None:
    """Each group with a limit counts: an outer one may be tighter, or use more."""
    root = proc_of(tmp_path, "0::/pods/pod/agent\n" if names == V2 else "4:hugetlb,memory:/pods/pod/agent\n")
    mount = root / "sys/fs/cgroup" / ("" if names == V2 else "memory")
    group(mount / "pods/pod/agent", names, 512 * MIB, used=100 * MIB)
    group(mount / "pods/pod", names, 600 * MIB, used=500 * MIB)
    group(mount / "pods", names, "max" if names == V2 else 9223372036854771712, used=900 * MIB)
    assert [one.left_bytes // MIB for one in limits(root)] == [412, 100]
    assert min(one.limit_bytes for one in limits(root)) == 512 * MIB


@pytest.mark.parametrize(
    "text", ["", "0::/\n", "nonsense\n", "5:memory:/\n", "0::/../../other\n", "5:cpu:/\n0::/gone/away\n"]
)
def test_without_a_limit_there_is_none(tmp_path: Path, text: str) -> None:
    """There is no limit if the kernel names none, or if files are missing or invalid."""
    root = proc_of(tmp_path, text)
    assert limits(root) == ()
    group(root / "sys/fs/cgroup", V2, "max")
    group(root / "sys/fs/cgroup/memory", V1, "nonsense")
    assert limits(root) == ()
    assert limits(tmp_path / "nothing") == ()


def test_a_worker_is_bounded_by_its_container(tmp_path: Path) -> None:
    """A worker's bound is the setting, or three quarters of its container's memory if that is less."""
    process, held = os.getpid(), anonymous_bytes()
    root = proc_of(tmp_path, "0::/\n")
    assert overgrown(process, max_mib=100_000, root=root) == ""
    assert "beyond supervisor.memory_mib" in overgrown(process, max_mib=1, root=root)
    group(root / "sys/fs/cgroup", V2, held)
    reason = overgrown(process, max_mib=100_000, root=root)
    assert reason.endswith(f"beyond three quarters of the container's {held / MIB:.0f} MiB")
    group(root / "sys/fs/cgroup", V2, 2 * held)
    assert overgrown(process, max_mib=100_000, root=root) == ""
    assert overgrown(2**22 + 1, max_mib=1, root=root) == ""


_COMMAND: Final = """
import os
import sys
from functools import partial
from pathlib import Path
from samerack.agent.supervisor import memory
from samerack.cli import memory_bound
from samerack.common.errors import report_error
from samerack.common.errors import AgentError

def command():
    if sys.argv[2] == "abort":
        os.abort()
    taken = [bytearray(1_000_000) for _ in range(int(sys.argv[2]))]
    print(len(taken), Path("/proc/self/oom_score_adj").read_text().strip())

try:
    memory_bound.limits = partial(memory.limits, Path(sys.argv[1]))
    memory_bound.bounded(command)
except AgentError as error:
    sys.exit(report_error(error))
"""
"""A command that takes this many megabytes."""


def _run(root: Path, megabytes: int | str) -> tuple[int, str, str]:
    line = [sys.executable, "-c", _COMMAND, str(root), str(megabytes)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_a_command_takes_no_more_than_its_container_has_left(tmp_path: Path) -> None:
    """The kernel enforces the bound, and the command ends with one line; without a container there is no bound."""
    root = proc_of(tmp_path, "0::/\n")
    code, out, _ = _run(root, 400)
    assert (code, out.split()[0]) == (0, "400")
    group(root / "sys/fs/cgroup", V2, 512 * MIB, used=212 * MIB)
    assert _run(root, 200) == (0, "200 1000", "")
    refused = "not enough memory left in this container: {} MiB of 512 MiB"
    for used, asked, message in (
        (212, 400, refused.format(300)),
        (212, "abort", "signal 6"),
        (492, 1, refused.format(20)),
    ):
        group(root / "sys/fs/cgroup", V2, 512 * MIB, used=used * MIB)
        code, out, errors = _run(root, asked)
        assert (code, out, message in errors, "Traceback" in errors) == (1, "", True, False), errors


def test_the_console_script_bounds_what_runs_beside_an_agent(tmp_path: Path) -> None:
    """Each command that loads much is bounded; the agent itself and probes are not."""
    program = (
        "import sys\n"
        "from samerack.cli import memory_bound, start\n"
        "memory_bound.bounded = lambda command: print('bounded')\n"
        "start.main()\n"
    )
    for name, expected in (("verify", "bounded"), ("rack", "")):
        line = [sys.executable, "-c", program, name]
        environment = {**os.environ, "SAMERACK_WEB__PORT": "1", "HOME": str(tmp_path)}
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
        assert done.stdout.strip() == expected, done.stderr
