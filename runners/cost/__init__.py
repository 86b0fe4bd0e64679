"""What it costs: prices, sessions, shares, the ledger, estimates, and when a guard has a reason to
act.
"""
