"""How versions of Slurm spell what is read of them: facts from public recordings, in lines of ours.

Of each: the version, or where the recording names none its year, and where it was seen. Names of
people, nodes and folders are made up. Manuals: those of 22.05, and the pages on job states and
reasons at slurm.schedmd.com, read in 2026.
"""

from typing import NamedTuple


class JobWord(NamedTuple):
    """A state of a job: whether it waits, has its nodes, is over; all False: not understood."""

    word: str
    waits: bool = False
    is_active: bool = False
    is_over: bool = False


# squeue's manual of 22.05, and the page on job states.
JOB_WORDS = (
    JobWord("PENDING", waits=True),
    JobWord("REQUEUED", waits=True),
    JobWord("REQUEUE_FED", waits=True),
    JobWord("REQUEUE_HOLD", waits=True),
    JobWord("RESV_DEL_HOLD", waits=True),
    JobWord("SPECIAL_EXIT", waits=True),
    JobWord("CONFIGURING", is_active=True),
    JobWord("RUNNING", is_active=True),
    JobWord("COMPLETING", is_active=True),
    JobWord("RESIZING", is_active=True),
    JobWord("SIGNALING", is_active=True),
    JobWord("STAGE_OUT", is_active=True),
    JobWord("STOPPED", is_active=True),
    JobWord("SUSPENDED", is_active=True),
    JobWord("COMPLETED", is_over=True),
    JobWord("FAILED", is_over=True),
    JobWord("CANCELLED", is_over=True),
    JobWord("CANCELLED by 30154", is_over=True),  # sacct of 2026, in public recordings
    JobWord("CANCELLED+", is_over=True),  # sacct with a narrow column
    JobWord("TIMEOUT", is_over=True),
    JobWord("PREEMPTED", is_over=True),
    JobWord("OUT_OF_MEMORY", is_over=True),
    JobWord("NODE_FAIL", is_over=True),
    JobWord("BOOT_FAIL", is_over=True),
    JobWord("DEADLINE", is_over=True),
    JobWord("REVOKED", is_over=True),
    # Cut off by a column, or flags that only newer versions have. Nothing follows from them.
    JobWord("OUT_OF_ME+"),
    JobWord("EXPEDITING"),
    JobWord("LAUNCH_FAILED"),
    JobWord("POWER_UP_NODE"),
    JobWord("RECONFIG_FAIL"),
    JobWord("UPDATE_DB"),
    JobWord(""),
)


class Node(NamedTuple):
    """What sinfo prints of a node, and its GPUs: model, all, free, used, down; None: not read."""

    state: str
    has: str
    used: str
    gpus: tuple[tuple[str, int, int, int, int], ...] | None


NODES = (
    # 22.05.11: a public test that checks the very same columns, and names the version
    Node("mix", "gpu:a40:1", "gpu:a40:1(IDX:0)", (("a40", 1, 0, 1, 0),)),
    Node("idle", "gpu:a40:1", "gpu:a40:0(IDX:N/A)", (("a40", 1, 1, 0, 0),)),
    # MPS beside the cards, in a public recording without a version
    Node(
        *("mix", "gpu:rtx_2080:8,mps:rtx_2080:800"),
        "gpu:rtx_2080:6(IDX:0,2-4,6-7),mps:rtx_2080:0(IDX:N/A)",
        (("rtx_2080", 8, 2, 6, 0),),
    ),
    # AutoDetect's names, sockets, two models, shards: public tests of two GPU tables
    Node(
        *("mix", "gpu:nvidia_geforce_rtx_2080_ti:2(S:0),gpu:nvidia_a40:2(S:1),shard:48(S:0-1)"),
        "gpu:nvidia_geforce_rtx_2080_ti:1(IDX:0),gpu:nvidia_a40:0(IDX:N/A),shard:0(0/24,0/24)",
        (("nvidia_geforce_rtx_2080_ti", 2, 1, 1, 0), ("nvidia_a40", 2, 2, 0, 0)),
    ),
    # MIG instances, as AutoDetect names them
    Node(
        *("mix", "gpu:h100_1g.10gb:7(S:0)", "gpu:h100_1g.10gb:2(IDX:0-1)"),
        (("h100_1g.10gb", 7, 5, 2, 0),),
    ),
    # One broken card kept apart, its node drained: a public test of 2026
    Node(
        *("drain", "gpu:broken:1,gpu:high_perf:7"),
        "gpu:broken:0(IDX:N/A),gpu:high_perf:0(IDX:N/A)",
        (("broken", 1, 0, 0, 1), ("high_perf", 7, 0, 0, 7)),
    ),
    # Used cards without their model: a site's notes of 2026 on its own scontrol
    Node("mix", "gpu:a100:44", "gpu:42", (("a100", 44, 2, 42, 0),)),
    Node("mix", "gpu:a100:4,gpu:h200:4", "gpu:3", (("", 8, 5, 3, 0),)),
    Node("mix", "gpu:8", "gpu:a100:3(IDX:0,2,5)", (("", 8, 5, 3, 0),)),
    # Suffixes and words of sinfo's manual of 22.05, and what its compact form makes of them
    *(
        Node(state, "gpu:a100:4", "gpu:a100:0(IDX:N/A)", (("a100", 4, 4, 0, 0),))
        for state in (
            "idle~",
            "idle#",
            "idle!",
            "idle%",
            "idle@",
            "idle-",
            "plnd",
            "pow_up",
            "IDLE",
        )
    ),
    *(
        Node(state, "gpu:a100:4", "gpu:a100:1(IDX:3)", (("a100", 4, 0, 1, 3),))
        for state in ("down*", "drained*", "drng", "drain$", "mix$", "idle^", "maint", "resv")
    ),
    *(
        Node(state, "gpu:a100:4", "(null)", (("a100", 4, 0, 0, 4),))
        for state in ("futr", "inval", "unk*", "reboot^", "failg", "npc", "block")
    ),
    Node("idle", "(null)", "(null)", ()),
    Node("idle", "craynetwork:4,hbm:16G", "craynetwork:0", ()),
    # Not understood: a state of tomorrow, a number with a unit, more used than there are
    Node("hibernating", "gpu:a100:4", "gpu:a100:0(IDX:N/A)", None),
    Node("idle", "gpu:a100:4K", "gpu:a100:0", None),
    Node("mix", "gpu:a100:4", "gpu:a100:many", None),
    Node("alloc", "gpu:a100:4", "(null)", None),
    Node("mix", "gpu:a100:4", "gpu:a100:5(IDX:0-4)", None),
    Node("mix", "gpu:a100:4", "gpu:a100:2(IDX:0", None),
)


class ShownJob(NamedTuple):
    """What `scontrol show job --oneliner` prints: state, billing, and its two files."""

    text: str
    states: list[str]
    billing: float
    output: str
    error: str


SHOWN_JOBS = (
    # January 2022, a cluster's manual: TRES is what it has
    ShownJob(
        "JobId=260079 JobName=bash UserId=ann(1522) GroupId=lab(162) MCS_label=N/A Priority=2797 "
        "Nice=0 Account=lab QOS=gpu JobState=RUNNING Reason=None Dependency=(null) Requeue=1 "
        "EndTime=2022-01-26T22:45:13 TRES=cpu=1,mem=1G,node=1,billing=1,gres/gpu=1 Socks/Node=* "
        "StdErr=/home/ann/a b.err StdIn=/dev/null StdOut=/home/ann/a b.out Power=",
        *(["RUNNING"], 1.0, "/home/ann/a b.out", "/home/ann/a b.err"),
    ),
    # September 2024, from a student's report: asked for and given apart
    ShownJob(
        "JobId=2468 JobName=bash UserId=ann(387) GroupId=ann(387) MCS_label=N/A Account=c QOS=normal "
        "JobState=FAILED Reason=RaisedSignal:9(Killed) Dependency=(null) AccrueTime=Unknown "
        "ReqTRES=cpu=1,mem=23500M,node=1,billing=1 AllocTRES=cpu=24,mem=23500M,node=1,billing=24 "
        "Command=/bin/bash WorkDir=/home/ann Power=",
        *(["FAILED"], 24.0, "", ""),
    ),
    # 2026, an experiment's log: an array that waits
    ShownJob(
        "JobId=2408239 ArrayJobId=2408239 ArrayTaskId=0-29%8 ArrayTaskThrottle=8 JobName=train "
        "UserId=ann(9) GroupId=g(9) JobState=PENDING Reason=Priority Dependency=(null) "
        "StartTime=Unknown EndTime=Unknown Deadline=N/A ReqTRES=cpu=8,mem=32G,node=1,billing=8,"
        "gres/gpu=1 AllocTRES=(null) StdErr=/home/ann/%A_%a.err StdOut=/home/ann/%A_%a.out",
        *(["PENDING"], 0.0, "/home/ann/%A_%a.out", "/home/ann/%A_%a.err"),
    ),
    # 25.11.3 (EESSI's bot, and an Airflow trigger's recording of 2026): StdErr may be empty,
    # SubmitLine has any words
    ShownJob(
        "JobId=132 JobName=wrap UserId=ann(2001) GroupId=ann(2001) MCS_label=N/A QOS=normal "
        "JobState=RUNNING Reason=None TimeLimit=UNLIMITED EndTime=Unknown NumNodes=1 "
        "ReqTRES=cpu=1,mem=1547579M,node=1,billing=1 "
        "AllocTRES=cpu=2,mem=1547579M,node=1,gres/gpu:h100_1g.10gb=1,billing=2 Licenses=(null) "
        "SubmitLine=sbatch -n1 --comment JobState=FAILED --wrap sleep 60 WorkDir=/u/ann StdErr= "
        "StdIn=/dev/null StdOut=/u/ann/slurm-132.out TresPerTask=cpu=1",
        *(["RUNNING"], 2.0, "/u/ann/slurm-132.out", ""),
    ),
    # A name with what looks like more fields, and units that have been shortened
    ShownJob(
        "JobId=7 JobName=a JobState=CANCELLED TRES=billing=9 UserId=ann(1) GroupId=g(1) "
        "JobState=COMPLETING Reason=None AllocTRES=cpu=1,billing=1.20M StdOut=/o",
        *(["COMPLETING"], 0.0, "/o", ""),
    ),
    # A heterogeneous job: a line for each part
    ShownJob(
        "JobId=12 HetJobId=12 HetJobOffset=0 JobName=h UserId=a(1) GroupId=a(1) JobState=RUNNING "
        "Reason=None\nJobId=13 HetJobId=12 HetJobOffset=1 JobName=h UserId=a(1) GroupId=a(1) "
        "JobState=NODE_FAIL Reason=None",
        *(["RUNNING", "NODE_FAIL"], 0.0, "", ""),
    ),
    ShownJob("No jobs in the system", [], 0.0, "", ""),
)

# What slurmstepd writes into a job's output, in logs of 2022 to 2026; the last is of a step there.
ENDED = (
    ("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2022-04-14T16:17:16 DUE TO TIME LIMIT ***",
     "time_limit"),
    ("slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2024-04-02T19:13:08 DUE TO TIME LIMIT ***",
     None),
    ("slurmstepd-n1: error: *** JOB 12 ON n1 CANCELLED AT 2023-02-22T05:15:11 ***", "cancelled"),
    ("error: *** JOB 12 ON n1 CANCELLED AT 2026-09-25T02:29:47 DUE to SIGNAL Killed ***", "unknown"),
)  # fmt: skip

# Lists of tasks in squeue's %K, and whether they are understood: cut off after 64 bytes by default.
TASKS = (("3-9%2", True), ("0-29%8", True), ("1-9:2", True), ("1,3,5,...", False), ("0-9,", True))

# Names and reasons as people and Slurm write them; %N and %e of what has no node or no end.
NAMES = ("a\nb", "a\x1fb", "12\x1f|x", "ünï — 名前", "x" * 5000, "", "JobState=FAILED")
REASONS = (
    "None", "Priority", "(null)", "ReqNodeNotAvail, UnavailableNodes:n[1-3]", "JobHeldUser",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "AssocGrpGRES", "QOSMaxGRESPerUser", "PartitionConfig", "RaisedSignal:9(Killed)",
    "BurstBufferStageIn", "ReservationDeleted", "MaxBillingPerAccount", "SchedDefer", "Extra_Line",
)  # fmt: skip
LENGTHS = (
    ("UNLIMITED", None), ("INVALID", None), ("NOT_SET", None), ("Partition_Limit", None),
    ("infinite", None), ("N/A", None), ("1-00:00:00", 86_400.0), ("365-00:00:00", 31_536_000.0),
    ("30:00", 1800.0), ("0:30", 30.0), ("1-02:03", None), ("10:99", None), ("٣:04", None),
)  # fmt: skip

# sshare: account, user, GrpTRESMins, GrpTRESRaw, TRESRunMins, as public budget scripts read them;
# then one with units, which are not understood, and Slurm's word for no limit.
SHARES = (
    ("lab|ann|billing=806400|cpu=120,mem=9,energy=0,node=3,billing=6000,fs/disk=0,gres/gpu=60|"
     "cpu=0,billing=600", (("billing", 13_440.0, 100.0, 10.0),)),
    ("lab||gres/gpu=600,gres/gpu:a100=60|gres/gpu=60,gres/gpu:a100=6|gres/gpu=0",
     (("gres/gpu", 10.0, 1.0, 0.0), ("gres/gpu:a100", 1.0, 0.1, 0.0))),
    ("lab||gres/gpu=600|gres/gpu=1.20K|gres/gpu=0", ()),
    ("lab||gres/gpu=18446744073709551615|gres/gpu=1|", ()),
    ("lab||||", ()),
)  # fmt: skip
