"""Why a run ended: evidence, signatures, the verdict, stacks, and what mends it."""
