"""What Slurm's accounting says of one's own accounts: which there are, and what is left on them."""

import re
import time
from contextlib import suppress

import msgspec

from runners.host.files import replace
from runners.host.identity import user_name
from runners.host.slurm_job import slurm_job
from runners.model.cluster import SlurmKeys
from runners.slurm.client import WITHIN_S, SlurmRefused, SlurmSilent, ask
from runners.slurm.partitions import PartitionGpus
from runners.state.decoding import read
from runners.state.layout import StateDirectory

_EVERY_S = 300.0
_WITHIN_S = 3.0
"""A page of money does not wait for Slurm any longer."""
_MOST_ROWS = 10_000
_WORD = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")


class AccountBudget(msgspec.Struct, frozen=True):
    """What an account may use of one resource (`gres/gpu`, `cpu`, `billing`), in hours of it.

    `reserved` is what running jobs may still take until their limits.
    """

    account: str
    resource: str
    limit_h: float
    used_h: float
    reserved_h: float = 0.0

    @property
    def left_h(self) -> float:
        """What nobody has used or reserved."""
        return max(0.0, self.limit_h - self.used_h - self.reserved_h)


def account_budgets(within_s: float = WITHIN_S) -> tuple[AccountBudget, ...]:
    """Those of accounts that have a limit. Raises SlurmSilent or SlurmRefused, which say why."""
    columns = "Account,User,GrpTRESMins,GrpTRESRaw,TRESRunMins"
    command = ("sshare", "--noheader", "--parsable2", f"--format={columns}")
    return read_budgets(ask(*command, within_s=within_s))


class BudgetTable(msgspec.Struct, frozen=True):
    """What Slurm said last of one's accounts: when it was asked (unix seconds), and its answer."""

    asked: float = 0.0
    budgets: tuple[AccountBudget, ...] = ()


def known_budgets(state: StateDirectory) -> tuple[AccountBudget, ...]:
    """Those of this cluster's accounts, asked again every five minutes at most.

    None where nothing of ours has ever been a job here; the last answer where Slurm gives none.
    """
    if not state.slurm.is_dir() or slurm_job() is not None:
        return ()
    before = read(state.budgets, BudgetTable) or BudgetTable()
    now = time.time()
    if 0 <= now - before.asked < _EVERY_S:
        return before.budgets
    budgets = before.budgets
    with suppress(SlurmRefused, SlurmSilent):  # accounting is off, or does not answer now
        budgets = account_budgets(_WITHIN_S)
    with suppress(OSError):
        replace(state.budgets, msgspec.json.encode(BudgetTable(now, budgets)), sync=False)
    return budgets


def read_budgets(output: str) -> tuple[AccountBudget, ...]:
    """The limits in sshare's answer, of accounts or of oneself in one; in its order."""
    found = []
    for line in output.splitlines()[:_MOST_ROWS]:
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 5:
            continue
        account, _, *texts = fields
        limits, used, reserved = map(_minutes, texts)
        for resource, minutes in limits.items():
            parts = minutes, used.get(resource, 0.0), reserved.get(resource, 0.0)
            hours = [part / 60 for part in parts if part is not None]
            if _WORD.fullmatch(account) and minutes and len(hours) == len(parts):
                found.append(AccountBudget(account, resource, *hours))
    return tuple(found)


def _minutes(text: str) -> dict[str, float | None]:
    """Minutes by resource; None for a number that is not understood, as one with a unit."""
    pairs = (part.partition("=") for part in text.split(","))
    return {
        name: float(value) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", value) else None
        for name, _, value in pairs
        if re.fullmatch(r"[a-z][\w/:.-]{0,60}", name)
    }


def proposed_keys(partitions: tuple[PartitionGpus, ...]) -> SlurmKeys:
    """What the settings could say of a cluster: partition, account, quality of service.

    The partition is Slurm's default where that has GPUs, else the one with most of them in service;
    the account its default for the user. What accounting does not say is left out.
    """
    found = max(
        (row for row in partitions if row.total > row.down),
        key=lambda row: (row.is_default, row.total - row.down, row.free),
        default=None,
    )
    account, qos = "", ""
    ask_for = ("sacctmgr", "--noheader", "--parsable2", "show")
    with suppress(SlurmRefused, SlurmSilent):  # accounting is off, or not for users
        user = user_name()
        account = _first(ask(*ask_for, "user", user, "format=DefaultAccount"))
        own = (f"user={user}", f"account={account}")
        qos = _first(ask(*ask_for, "assoc", *own, "format=DefaultQOS"))
    return SlurmKeys(partition=found.partition if found else "", account=account, qos=qos)


def _first(output: str) -> str:
    """The first line that is a name."""
    lines = (line.strip() for line in output.splitlines()[:_MOST_ROWS])
    return next((line for line in lines if _WORD.fullmatch(line)), "")


def settings_text(keys: SlurmKeys) -> str:
    """The lines of settings.yaml that say so; empty where there is nothing to say."""
    named = {"partition": keys.partition, "account": keys.account, "qos": keys.qos}
    pairs = ", ".join(f"{name}: {value}" for name, value in named.items() if value)
    return f"slurm: {{{pairs}}}" if pairs else ""
