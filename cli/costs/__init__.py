"""What a month's work costs: prices, measured steps, and the one model that joins them."""
