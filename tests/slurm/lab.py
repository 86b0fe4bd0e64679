"""A real Slurm on loopback: munged, slurmctld and a slurmd per node with eight made-up GPUs.

The GPUs are character devices (copies of /dev/null): for regular files Slurm leaves
CUDA_VISIBLE_DEVICES empty. Processes of jobs are tracked, and their memory limited, as most clusters
do it, by control groups, where version 1 of those is mounted; else they are tracked by their parents.
"""

import ctypes
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path

from runners.host.procfs import members_of, read_processes
from tests.support import eventually, free_port

GPUS = 8
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_OF_ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")
_NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
_GROUPS = Path("/sys/fs/cgroup")
_ANSWERS_WITHIN_S = 2.0
_libc = ctypes.CDLL(None)
_LOST = ("down", "drain", "fail")
_TAKES = ("idle", "mixed", "allocated", "completing")
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
StateSaveLocation={folder}/save
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
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
PartitionName=gpu Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=10 State=UP PriorityTier=1
PartitionName=short Nodes=ALL MaxTime=2 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=9
PartitionName=closed Nodes=ALL State=DOWN
"""
ACCOUNTED = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PartitionName=billed Nodes=ALL MaxTime=60 State=UP TRESBillingWeights="CPU=1.0,GRES/gpu=10.0"
"""
DATABASE = """\
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=root
StorageLoc=slurm
"""
_NODE = """\
NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 Boards=1 \
SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=16000 Gres=gpu:a100:{gpus} \
State=UNKNOWN
"""
_TASK_PROLOG = """\
#!/bin/sh
read -r off <{folder}/clock.$SLURMD_NODENAME && [ "$off" -ne 0 ] || exit 0
echo export LD_PRELOAD={folder}/clock.so
echo export FRESNEL_LAB_CLOCK_S=$off
"""
_SPOOL = "size=6m"
_MARK = "FRESNEL_LAB_NODE"
"""Names its node to a slurmd, and to Slurm's own processes that it starts."""


def why_not(is_accounted: bool = False) -> str:
    """Why no Slurm, or none with accounting, can be started here; empty when one can."""
    needed = _NEEDED + (_OF_ACCOUNTING if is_accounted else ())
    missing = [name for name in needed if shutil.which(name, path=PATH) is None]
    if missing:
        more = " slurmdbd mariadb-server" if is_accounted else ""
        return f"no Slurm here ({', '.join(missing)}): apt-get install slurmctld slurmd munge{more}"
    return "" if os.geteuid() == 0 else "Slurm's daemons are started by root only"


class SlurmLab:
    """A cluster of so many nodes; its commands find it by `SLURM_CONF`.

    With accounting, it has a database, and the account `lab` for everybody who is made a user of it.
    A frail one has nodes whose spool can be filled, and whose clock can be changed.
    """

    def __init__(
        self, folder: Path, nodes: int = 1, is_accounted: bool = False, is_frail: bool = False
    ) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755, parents=True)
        self.conf = folder / "slurm.conf"
        name = f"node{secrets.token_hex(3)}"
        self.nodes = tuple(f"{name}-{number}" for number in range(nodes))
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for part in ("save", *(f"spool.{node}" for node in self.nodes)):
            (folder / part).mkdir()
        self._devices()
        self._configure()
        self._small: list[Path] = []
        if is_frail:
            self._make_frail()
        try:
            self.start_munge()
            if is_accounted:
                self._start_accounting()
            self.start_controller()
            for node in self.nodes:
                self.start_node(node)
            eventually(self._are_idle, what="idle nodes")
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
        host = socket.gethostname()
        cluster = CONFIGURATION.format(
            folder=self.folder,
            host=host,
            controller=free_port(),
            tracking="proctrack/cgroup" if has_groups else "proctrack/linuxproc",
            tasks="task/cgroup" if has_groups and self.limits_memory else "task/none",
        )
        nodes = (
            _NODE.format(name=node, host=host, port=free_port(), gpus=GPUS) for node in self.nodes
        )
        self.conf.write_text("".join((cluster, *nodes)))
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
            "ConstrainRAMSpace=yes\n"
        )

    def _make_frail(self) -> None:
        """Small disks for the spools where one may mount, a clock of its own where one can build it."""
        for node in self.nodes:
            spool = self._spool(node)
            mount = ("mount", "-t", "tmpfs", "-o", _SPOOL, "tmpfs", str(spool))
            if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
                self._small.append(spool)
        source = Path(__file__).with_name("clock.c")
        build = ("cc", "-shared", "-fPIC", "-o", f"{self.folder}/clock.so", str(source), "-ldl")
        if shutil.which("cc") and not subprocess.run(build, check=False).returncode:
            for node in self.nodes:
                self._clock(node).write_text("0\n")
            prolog = self.folder / "prolog.sh"
            prolog.write_text(_TASK_PROLOG.format(folder=self.folder))
            prolog.chmod(0o755)
            with self.conf.open("a") as conf:
                conf.write(f"TaskProlog={prolog}\n")

    def _spool(self, node: str) -> Path:
        return self.folder / f"spool.{node}"

    def _clock(self, node: str) -> Path:
        return self.folder / f"clock.{node}"

    def fill_spool(self, node: str) -> bool:
        """Leave no room in a node's spool until it is healed; False where that cannot be done."""
        if self._spool(node) not in self._small:
            return False
        with suppress(OSError), (self._spool(node) / "filled").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        return True

    def shift_clock(self, node: str, seconds: int) -> bool:
        """Let the clock of a node be so far ahead, from its next job on; False: it cannot be."""
        if not self._clock(node).exists():
            return False
        self._clock(node).write_text(f"{seconds}\n")
        self.kill("slurmd", node)
        self.start_node(node)
        return True

    def _start_accounting(self) -> None:
        """Start the database and slurmdbd, with this cluster and an account in it."""
        port, storage, data = free_port(), free_port(), self.folder / "database"
        made = subprocess.run(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root"),
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
            ],
            env=self.environment(),
            capture_output=True,
            check=False,
        )
        assert made.returncode == 0, made
        self._start(
            *("mariadbd", "--no-defaults", f"--datadir={data}", "--user=root"),
            *(f"--socket={self.folder}/database.socket", f"--port={storage}"),
            *("--bind-address=127.0.0.1", "--skip-grant-tables", "--innodb-buffer-pool-size=32M"),
            *("--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M"),
        )
        eventually(lambda: _listens(storage), what="a database")
        configuration = self.folder / "slurmdbd.conf"
        configuration.write_text(
            DATABASE.format(
                host=socket.gethostname(), folder=self.folder, port=port, storage=storage
            )
        )
        configuration.chmod(0o600)
        with self.conf.open("a") as conf:
            conf.write(ACCOUNTED.format(folder=self.folder, port=port))
        self._start("slurmdbd", "-D")
        eventually(lambda: _listens(port), what="slurmdbd")
        for words in (
            ("cluster", "lab"),
            ("account", "lab", "Description=lab", "Organization=lab"),
            ("user", "root", "Account=lab", "DefaultAccount=lab"),
        ):
            self.call("sacctmgr", "--immediate", "add", *words)

    def _start(
        self, name: str, *arguments: str, node: str = "", before: Sequence[str] = ()
    ) -> None:
        program = shutil.which(name, path=PATH)
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as log:
            self._daemons[name + node] = subprocess.Popen(
                [*before, program, *arguments],
                env={**self.environment(), _MARK: node, **self._clock_of(node)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_end_with_tests,
            )

    def _clock_of(self, node: str) -> dict[str, str]:
        if not node or not self._clock(node).exists():
            return {}
        off = self._clock(node).read_text().strip()
        return {"LD_PRELOAD": f"{self.folder}/clock.so", "FRESNEL_LAB_CLOCK_S": off}

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

    def start_node(self, node: str) -> None:
        """Start a node's daemon, or start it again."""
        self._start("slurmd", "-D", "-f", str(self.conf), "-N", node, node=node)

    def show_other(self, node: str, folder: Path, other: Path) -> bool:
        """Let what runs on a node see `other` where `folder` is; False where that cannot be done.

        Until its daemon is started again.
        """
        unshare = ("unshare", "--mount", "--propagation", "private")
        if subprocess.run((*unshare, "true"), capture_output=True, check=False).returncode:
            return False
        self.kill("slurmd", node)
        mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        before = (*unshare, "sh", "-c", mount, "sh", str(other), str(folder))
        self._start("slurmd", "-D", "-f", str(self.conf), "-N", node, node=node, before=before)
        return True

    def kill(self, daemon: str, node: str = "") -> None:
        """End `munged`, `slurmctld`, or the `slurmd` of a node, as a crash would."""
        self._end(daemon + node, signal.SIGKILL)

    def freeze(self, daemon: str, on: bool = True) -> None:
        """Let a daemon hang, or go on."""
        self._daemons[daemon].send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def crash_node(self, node: str) -> None:
        """End all on a node at once, as a loss of its power would, and let the controller know."""
        self.kill("slurmd", node)
        self._kill_jobs(node)
        self.lose_node(node)

    def _kill_jobs(self, node: str) -> None:
        def are_gone() -> bool:
            found = self._processes(node)
            # All are stopped before one is killed: none may record how another ended.
            for number, pid in product((signal.SIGSTOP, signal.SIGKILL), found):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            # Slurm may have frozen them when it was killed itself.
            for file in _GROUPS.glob(f"freezer/slurm_{node}/**/freezer.state"):
                with suppress(OSError):
                    file.write_text("THAWED")
            return not found

        # Again until nothing is left: what is being killed may have forked meanwhile.
        eventually(are_gone, what="no process of its jobs")

    def _processes(self, node: str) -> list[int]:
        """What belongs to jobs of a node: Slurm's own processes first, as they tell of others."""
        is_here, is_mine = (f"{name}={node}".encode() for name in (_MARK, "SLURMD_NODENAME"))
        words = {pid: _proc(pid, "environ").split(b"\0") for pid in read_processes()}
        own = [pid for pid, found in words.items() if is_here in found]
        jobs = [pid for pid in own if b"slurmstepd" in _proc(pid, "cmdline")]
        jobs += [pid for pid, found in words.items() if is_mine in found]
        # The waiter of a run has written its name over its environment.
        return [*jobs, *members_of(f"/freezer/slurm_{node}", str(_GROUPS))]

    def lose_node(self, node: str) -> None:
        """Let the controller take a node for dead, which ends its jobs."""
        self.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def heal(self) -> None:
        """Start what was killed, let go on what hangs, let each node take jobs again."""
        for spool in self._small:
            (spool / "filled").unlink(missing_ok=True)
        self._go_on("munged", self.start_munge)
        self._go_on("slurmctld", self.start_controller)
        eventually(self._answers, what="a controller that answers")
        if self._lost_nodes() and self._ask("squeue", "-h"):
            eventually(self._has_cleared, 60.0, what="nothing left of jobs of lost nodes")
        for node in self.nodes:
            self._go_on(f"slurmd{node}", partial(self.start_node, node))
        eventually(self._take_jobs, what="nodes that take jobs")
        self.release()

    def _go_on(self, daemon: str, start: Callable[[], None]) -> None:
        if daemon in self._daemons:
            self._daemons[daemon].send_signal(signal.SIGCONT)
        else:
            start()

    def _answers(self) -> bool:
        return self._ask("scontrol", "ping").count("UP") > 0

    def _has_cleared(self) -> bool:
        """Whether all has been ended that had begun on lost nodes.

        For ten seconds the controller tries to tell a lost node to end its jobs, by their numbers:
        one that it begins anew has the same, and would be ended there by the first one's end.
        """
        agents = re.findall(r"^Agent .*: +(\d+)$", self._ask("sdiag"), re.MULTILINE)
        has_told = bool(agents) and not any(map(int, agents))
        return has_told and not any(self._processes(node) for node in self._lost_nodes())

    def _states(self) -> dict[str, str]:
        """The nodes' states, by their names."""
        lines = self._ask("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines)

    def _lost_nodes(self) -> list[str]:
        return [node for node, state in self._states().items() if state.startswith(_LOST)]

    def _take_jobs(self) -> bool:
        """Whether all nodes do; they are told to."""
        for node in self._lost_nodes():
            self._ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
        states = self._states().values()
        return bool(states) and all(state in _TAKES for state in states)

    def release(self) -> None:
        """Let what was put back into the queue start: Slurm lets it wait for two minutes, and
        holds what its node could not start.

        In the next second, not in this one: a node knows by whole seconds whether a start is newer
        than the end that it was told of, and fails the job otherwise.
        """
        waiting = self.call("squeue", "-h", "-r", "--states=PD", "-o", "%i %r").splitlines()
        second = int(time.time())
        if waiting:
            eventually(lambda: int(time.time()) > second, what="the next second")
        for line in waiting:
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
            words,
            env=self.environment(),
            cwd=self.folder,  # where a job writes that names no file
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, (words, done)
        return done.stdout.strip()

    def _are_idle(self) -> bool:
        return list(self._states().values()) == ["idle"] * len(self.nodes)

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
        for daemon in reversed(list(self._daemons)):
            self._end(daemon, signal.SIGKILL)
        for node in self.nodes:
            self._kill_jobs(node)
        for spool in self._small:
            subprocess.run(("umount", "--lazy", str(spool)), check=False)


def _proc(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def _end_with_tests() -> None:
    """The daemon is killed when the tests are: PR_SET_PDEATHSIG, as in <linux/prctl.h>."""
    _libc.prctl(1, int(signal.SIGKILL))


@contextmanager
def running_lab(
    folder: Path, nodes: int = 1, is_accounted: bool = False, is_frail: bool = False
) -> Iterator[SlurmLab]:
    """A cluster of so many nodes that ends with the block."""
    lab = SlurmLab(folder, nodes, is_accounted, is_frail)
    try:
        yield lab
        lab.clear()
    finally:
        lab.close()
