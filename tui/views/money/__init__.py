"""What is shown of money: costs, prices, guards; no screen."""
