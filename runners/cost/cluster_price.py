"""What a cluster charges for a job, as the user's settings say: by GPU, or by unit of its bill."""

from runners.model.spec import Price
from runners.presets.reading.user_settings import read_settings


def cluster_price() -> Price | None:
    """The price of this machine's Slurm; None where the settings have none.

    For what was allocated, from when a job begins: waiting costs nothing. How many units a job is
    billed as (`billing` of its AllocTRES) is known when it has begun.
    """
    charged = read_settings().slurm.price
    if charged.per_billing_hour is not None:
        return Price(charged.per_billing_hour, "unit", "cluster")
    if charged.per_gpu_hour is not None:
        return Price(charged.per_gpu_hour, "gpu", "cluster")
    return None
