"""What runs cost: prices, sessions, shares, the ledger and estimates."""
