"""A real Slurm on loopback: munged, slurmctld and one slurmd with eight made-up GPUs.

The GPUs are character devices (copies of /dev/null): for regular files Slurm leaves
CUDA_VISIBLE_DEVICES empty. Processes of jobs are tracked, and their memory limited, as most clusters
do it, by control groups, where version 1 of those is mounted; else they are tracked by their parents.
"""

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runners.host.procfs import members_of, read_processes
from tests.support import eventually

GPUS = 8
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
_GROUPS = Path("/sys/fs/cgroup")
_ANSWERS_WITHIN_S = 2.0
_libc = ctypes.CDLL(None)
_LOST = ("down", "drain", "fail")
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/save
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MpiDefault=none
ProctrackType={tracking}
TaskPlugin={tasks}
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=30
MinJobAge=300
NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 Boards=1 SocketsPerBoard=1 \
CoresPerSocket=16 ThreadsPerCore=1 RealMemory=16000 Gres=gpu:a100:{gpus} State=UNKNOWN
PartitionName=gpu Nodes={name} Default=YES MaxTime=1-00:00:00 DefaultTime=10 State=UP PriorityTier=1
PartitionName=short Nodes={name} MaxTime=2 State=UP PriorityTier=1
PartitionName=urgent Nodes={name} MaxTime=60 State=UP PriorityTier=9
PartitionName=closed Nodes={name} State=DOWN
"""


def why_not() -> str:
    """Why no Slurm can be started here; empty when one can."""
    missing = [name for name in _NEEDED if shutil.which(name, path=PATH) is None]
    if missing:
        return f"no Slurm here ({', '.join(missing)}): apt-get install slurmctld slurmd munge"
    return "" if os.geteuid() == 0 else "Slurm's daemons are started by root only"


class SlurmLab:
    """A cluster of one node; its commands find it by `SLURM_CONF`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755, parents=True)
        self.conf = folder / "slurm.conf"
        self.node = f"node{secrets.token_hex(3)}"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("save", "spool"):
            (folder / name).mkdir()
        self._devices()
        self._configure()
        try:
            self.start_munge()
            self.start_controller()
            self.start_node()
            eventually(self._is_idle, what="an idle node")
        except BaseException:
            self.close()
            raise

    def _devices(self) -> None:
        devices = self.folder / "dev"
        devices.mkdir()
        for number in range(GPUS):
            os.mknod(devices / f"nvidia{number}", 0o20666, os.makedev(1, 3))
        (self.folder / "gres.conf").write_text(
            f"Name=gpu Type=a100 File={devices}/nvidia[0-{GPUS - 1}]\n"
        )

    def _configure(self) -> None:
        self.limits_memory = os.access(_GROUPS / "memory" / "tasks", os.W_OK)
        has_groups = os.access(_GROUPS / "freezer" / "tasks", os.W_OK)
        self.conf.write_text(
            CONFIGURATION.format(
                folder=self.folder,
                host=socket.gethostname(),
                name=self.node,
                controller=_free_port(),
                node=_free_port(),
                tracking="proctrack/cgroup" if has_groups else "proctrack/linuxproc",
                tasks="task/cgroup" if has_groups and self.limits_memory else "task/none",
                gpus=GPUS,
            )
        )
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
            "ConstrainRAMSpace=yes\n"
        )

    def _start(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=PATH)
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [program, *arguments],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_end_with_tests,
            )

    def start_munge(self) -> None:
        """Start what the daemons and commands know each other by."""
        key = self.folder / "munge.key"
        if not key.exists():
            key.write_bytes(secrets.token_bytes(128))
            key.chmod(0o400)
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--socket={self.folder}/munge.socket",
            f"--key-file={key}",
            f"--pid-file={self.folder}/munge.pid",
            f"--log-file={self.folder}/munge.log",
            f"--seed-file={self.folder}/munge.seed",
        )
        eventually((self.folder / "munge.socket").exists, what="munged's socket")

    def start_controller(self) -> None:
        """Start the controller, or start it again."""
        self._start("slurmctld", "-D", "-f", str(self.conf))

    def start_node(self) -> None:
        """Start the node's daemon, or start it again."""
        self._start("slurmd", "-D", "-f", str(self.conf), "-N", self.node)

    def kill(self, daemon: str) -> None:
        """End `munged`, `slurmctld` or `slurmd` as a crash would."""
        self._end(daemon, signal.SIGKILL)

    def freeze(self, daemon: str, on: bool = True) -> None:
        """Let a daemon hang, or go on."""
        self._daemons[daemon].send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def crash_node(self) -> None:
        """End all on the node at once, as a loss of its power would, and let the controller know."""
        self.kill("slurmd")
        self._kill_jobs()
        self.lose_node()

    def _kill_jobs(self) -> None:
        """Kill whatever belongs to a job of this node: Slurm's own processes first, or they tell."""
        needle = f"SLURM_CONF={self.conf}".encode()
        own = [pid for pid in read_processes() if needle in _proc(pid, "environ").split(b"\0")]
        jobs = [pid for pid in own if b"slurmstepd" in _proc(pid, "cmdline")]
        jobs += [pid for pid in own if b"SLURM_JOB_ID=" in _proc(pid, "environ")]
        # The waiter of a run has written its name over its environment.
        jobs += members_of(f"/freezer/slurm_{self.node}", str(_GROUPS))
        for pid in jobs:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def lose_node(self) -> None:
        """Let the controller take the node for dead, which ends its jobs."""
        self.call("scontrol", "update", f"NodeName={self.node}", "State=DOWN", "Reason=lost")

    def heal(self) -> None:
        """Start what was killed, let go on what hangs, let the node take jobs again."""
        starts = {
            "munged": self.start_munge,
            "slurmctld": self.start_controller,
            "slurmd": self.start_node,
        }
        for daemon, start in starts.items():
            if daemon not in self._daemons:
                start()
            else:
                self.freeze(daemon, False)
        eventually(self._answers, what="a controller that answers")
        eventually(self._takes_jobs, what="a node that takes jobs")
        self.release()

    def _answers(self) -> bool:
        return self._ask("scontrol", "ping").count("UP") > 0

    def _takes_jobs(self) -> bool:
        """Whether the node does; it is told to."""
        state = self._ask("sinfo", "-h", "-o", "%T")
        if state.startswith(_LOST):
            self._ask("scontrol", "update", f"NodeName={self.node}", "State=RESUME")
        return state.rstrip() in ("idle", "mixed", "allocated", "completing")

    def release(self) -> None:
        """Let what was put back into the queue start at once: Slurm lets it wait for two minutes,
        and holds what its node could not start.
        """
        for line in self.call("squeue", "-h", "-r", "--states=PD", "-o", "%i %r").splitlines():
            job, _, reason = line.partition(" ")
            held = "held" in reason or reason.startswith("JobHold")
            # It may have begun meanwhile.
            self._ask(
                "scontrol",
                *(["release", job] if held else ["update", f"JobId={job}", "StartTime=now"]),
            )

    def kill_controller(self) -> None:
        """End the controller as a crash would, once it has saved the jobs it knows.

        It does that some seconds late: the jobs of its last moments are lost, here as anywhere.
        """
        saved, now = self.folder / "save" / "job_state", time.time()
        self.submit("true", "--hold")  # it saves when something has changed
        eventually(lambda: saved.exists() and saved.stat().st_mtime > now, what="saved jobs")
        self.kill("slurmctld")

    def _end(self, name: str, number: signal.Signals) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.send_signal(number)
            daemon.send_signal(signal.SIGCONT)
            daemon.wait()

    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands ask this cluster."""
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.conf)}

    def call(self, *words: str) -> str:
        """What one of Slurm's commands prints; it must succeed."""
        done = subprocess.run(
            words, env=self.environment(), capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, (words, done)
        return done.stdout.strip()

    def _is_idle(self) -> bool:
        return "idle" in self._ask("sinfo", "-h", "-o", "%T")

    def _ask(self, *words: str) -> str:
        """What one of Slurm's commands prints; empty where it does not answer in time."""
        try:
            done = subprocess.run(
                words,
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=_ANSWERS_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """Submit a shell script of a user's own; its job's id."""
        file = self.folder / f"job-{secrets.token_hex(4)}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        return self.call("sbatch", "--parsable", f"--output={file}.out", *options, str(file))

    def job(self, job: str) -> dict[str, str]:
        """What the controller says of a job, by field: JobState, Reason and the like."""
        text = self.call("scontrol", "show", "job", job)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def clear(self) -> None:
        """Cancel all jobs, and wait until nothing of them is left."""
        self.call("scancel", "--user=root", "--hurry")
        eventually(lambda: not self.call("squeue", "-h"), what="an empty queue")

    def close(self) -> None:
        """End the cluster and what still runs on it."""
        for name in ("slurmd", "slurmctld", "munged"):
            self._end(name, signal.SIGKILL)
        self._kill_jobs()


def _proc(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def _end_with_tests() -> None:
    """The daemon is killed when the tests are: PR_SET_PDEATHSIG, as in <linux/prctl.h>."""
    _libc.prctl(1, int(signal.SIGKILL))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def running_lab(folder: Path) -> Iterator[SlurmLab]:
    """A cluster that ends with the block."""
    lab = SlurmLab(folder)
    try:
        yield lab
        lab.clear()
    finally:
        lab.close()
